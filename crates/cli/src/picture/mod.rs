// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all pictures share: one style sheet, one code for axes and legends, one writer of SVG.
//!
//! In: numbers and names of any origin. Out: SVG, alone or as a part of an HTML page. A picture
//! needs no script and no network, follows the light or dark scheme of the reader, and keeps its
//! labels within its frame. Colours are those of Okabe and Ito, which people who see fewer colours
//! tell apart; what matters differs in shape or place, too.

pub mod axis;
#[cfg(test)]
pub mod check;
pub mod frame;
pub mod page;
pub mod positions;
pub mod style;
pub mod svg;
