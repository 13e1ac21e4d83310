// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread kernel load`, `set` and `unload`.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use foreread_core::Bytes;
use foreread_linux_module::{Kernel, Of, Settings, load as load_module, unload as unload_module};
use serde::Serialize;

use super::args::{LoadArguments, SetArguments, UnloadArguments, Wish};
use super::{EXIT_NOT_THERE, OFF, check_root, taken};
use crate::named_device;
use crate::output;
use crate::text;

/// Bytes of the pages that the module counts in.
const PAGE_BYTES: u64 = 4096;

/// `foreread.kernel.load/1` and `foreread.kernel.set/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LoadJson {
    schema: &'static str,
    /// Whether the module was loaded before.
    was_loaded: bool,
    /// The devices, by number, and `default` for all that have no policy of their own.
    devices: Vec<String>,
    /// The policy that they have now; null where no device was named.
    policy: Option<String>,
}

/// `foreread.kernel.unload/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnloadJson {
    schema: &'static str,
    /// Whether it was loaded.
    was_loaded: bool,
    /// The devices that the kernel reads ahead of again.
    given_back: Vec<String>,
}

pub fn load(arguments: &LoadArguments) -> Result<ExitCode> {
    let root = &arguments.place.root;
    // Names are looked up first: a wrong one loads nothing.
    let which = which(&arguments.devices, arguments.all)?;
    check_root(root)?;
    let kernel = Kernel::running(root)?;
    let was_loaded = Settings::of(root).is_some();
    if !was_loaded {
        if kernel.module().is_none() {
            bail!(
                "the module is not installed for {}; `sudo foreread kernel install` builds it",
                kernel.release()
            );
        }
        load_module(&kernel, arguments.force).context("cannot load the module")?;
    }
    let settings = Settings::of(root).context("the module is loaded, and not in /sys/kernel")?;
    let policy = &arguments.policy;
    if let Err(error) = set_all(&settings, &which, policy, &arguments.wish) {
        // All of it or nothing.
        if !was_loaded {
            unload_module(&kernel).context("cannot unload the module again")?;
        }
        return Err(error);
    }
    if arguments.place.json {
        text::print_json(&document(
            "foreread.kernel.load/1",
            was_loaded,
            &which,
            policy,
        ))?;
    } else {
        let loaded = match was_loaded {
            true => "The module was loaded already.\n",
            false => "Loaded the module.\n",
        };
        let next = match which.is_empty() {
            true => "It changes nothing yet: sudo foreread kernel set DEVICE --policy NAME\n",
            false => "",
        };
        let said = said(&arguments.devices, arguments.all, policy);
        text::print(&format!(
            "{loaded}{said}{next}`foreread kernel unload` undoes it.\n"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub fn set(arguments: &SetArguments) -> Result<ExitCode> {
    let root = &arguments.place.root;
    let which = which(&arguments.devices, arguments.all)?;
    let Some(settings) = Settings::of(root) else {
        output::note("the module isn't loaded; `sudo foreread kernel load` loads it");
        return Ok(ExitCode::from(EXIT_NOT_THERE));
    };
    check_root(root)?;
    let policy = &arguments.policy;
    set_all(&settings, &which, policy, &arguments.wish)?;
    if arguments.place.json {
        text::print_json(&document("foreread.kernel.set/1", true, &which, policy))?;
    } else {
        text::print(&said(&arguments.devices, arguments.all, policy))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub fn unload(arguments: &UnloadArguments) -> Result<ExitCode> {
    let root = &arguments.place.root;
    let settings = Settings::of(root);
    let mut given_back = Vec::new();
    if settings.is_some() {
        check_root(root)?;
        let devices = taken(root)?.unwrap_or_default();
        given_back.extend(devices.into_iter().map(|(device, _)| device));
        unload_module(&Kernel::running(root)?).context("cannot unload the module")?;
    }
    if arguments.place.json {
        text::print_json(&UnloadJson {
            schema: "foreread.kernel.unload/1",
            was_loaded: settings.is_some(),
            given_back,
        })?;
    } else {
        text::print(match settings {
            Some(_) => "Unloaded the module: the kernel reads ahead of all devices.\n",
            None => "It is not loaded.\n",
        })?;
    }
    Ok(match settings {
        Some(_) => ExitCode::SUCCESS,
        None => ExitCode::from(EXIT_NOT_THERE),
    })
}

fn which(names: &[String], all: bool) -> Result<Vec<Of>> {
    let mut which = Vec::new();
    for name in names {
        let of = Of::Device(named_device::device(name)?);
        if !which.contains(&of) {
            which.push(of);
        }
    }
    which.extend(all.then_some(Of::Default));
    Ok(which)
}

fn set_all(settings: &Settings, which: &[Of], policy: &str, wish: &Wish) -> Result<()> {
    let pages = wish.window_max.map(window_max_pages).transpose()?;
    let known = settings.policies()?;
    // The module checks it, too. Here the answer names those that there are.
    let is_known = policy == OFF || known.iter().any(|known| known == policy);
    if !is_known && !which.is_empty() {
        bail!(
            "the module has no policy {}; it has: {OFF}, {}",
            text::printable(policy),
            known.join(", ")
        );
    }
    for of in which {
        set_one(settings, *of, policy, pages, wish)?;
    }
    Ok(())
}

fn set_one(
    settings: &Settings,
    of: Of,
    policy: &str,
    pages: Option<u64>,
    wish: &Wish,
) -> Result<()> {
    if let Of::Device(device) = of
        && !settings.has(of)
    {
        settings.add(device)?;
    }
    if let Some(pages) = pages {
        settings.set_window_max(of, pages)?;
    }
    if let Some(read_by) = wish.read_by {
        settings.set_act(of, read_by.name())?;
    }
    Ok(settings.set_policy(of, policy)?)
}

fn window_max_pages(size: Bytes) -> Result<u64> {
    let bytes = size.count();
    if !bytes.is_multiple_of(PAGE_BYTES) {
        bail!("--window-max: windows are in whole pages of 4 KiB");
    }
    let pages = bytes / PAGE_BYTES;
    if u32::try_from(pages).is_err() {
        bail!("--window-max: no kernel reads so far ahead");
    }
    Ok(pages)
}

fn document(schema: &'static str, was_loaded: bool, which: &[Of], policy: &str) -> LoadJson {
    LoadJson {
        schema,
        was_loaded,
        devices: which.iter().map(ToString::to_string).collect(),
        policy: (!which.is_empty()).then(|| policy.to_owned()),
    }
}

fn said(devices: &[String], all: bool, policy: &str) -> String {
    let mut names: Vec<String> = devices.iter().map(|name| text::printable(name)).collect();
    if all {
        names.push("each device without a policy of its own".to_owned());
    }
    let by = match policy {
        OFF => "by the kernel".to_owned(),
        policy => format!("by the policy {}", text::printable(policy)),
    };
    match names.is_empty() {
        true => String::new(),
        false => format!("Read ahead of {by}: {}\n", names.join(", ")),
    }
}
