// SPDX-License-Identifier: MIT OR Apache-2.0
//! The root disk of a machine that boots several times: what one boot writes, the next one finds.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use foreread_model::DiskParameters;

use crate::error::GuestError;

/// A root disk, each read of which takes the time that a modelled disk needs. Copies are the same
/// disk. What the model counted is in [`crate::Outcome::modelled`], as `root`.
#[derive(Clone, Debug)]
pub struct RootDisk {
    /// Empty while a guest runs from it.
    content: Arc<Mutex<Vec<u8>>>,
    pub(crate) parameters: DiskParameters,
}

impl RootDisk {
    /// A disk with the content of a raw image, which stays as it is.
    ///
    /// # Errors
    /// The image can't be read.
    pub fn of(image: &Path, parameters: DiskParameters) -> Result<Self, GuestError> {
        let content = fs::read(image).map_err(GuestError::at("read", image))?;
        Ok(Self {
            content: Arc::new(Mutex::new(content)),
            parameters,
        })
    }

    /// The same disk at another speed.
    #[must_use]
    pub fn at_speed(&self, parameters: DiskParameters) -> Self {
        Self {
            content: Arc::clone(&self.content),
            parameters,
        }
    }

    pub(crate) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.content.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn put_back(&self, content: Vec<u8>) {
        *self.content.lock().unwrap_or_else(PoisonError::into_inner) = content;
    }
}
