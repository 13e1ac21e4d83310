// SPDX-License-Identifier: MIT OR Apache-2.0
//! The style sheet of all pictures and pages: colours as CSS custom properties, for light and dark.
//!
//! Each rule names the light colour before the custom property, because some viewers of SVG
//! (librsvg, for one) skip `var()`. They show the light scheme.

use std::fmt::Write as _;

/// A colour: its name, and its value in the light and the dark scheme.
struct Colour {
    name: &'static str,
    light: &'static str,
    dark: &'static str,
}

const fn colour(name: &'static str, light: &'static str, dark: &'static str) -> Colour {
    Colour { name, light, dark }
}

/// Background, text and lines.
const BASE: [Colour; 6] = [
    colour("paper", "#ffffff", "#0d1117"),
    colour("panel", "#f6f8fa", "#151b23"),
    colour("ink", "#1f2328", "#f0f6fc"),
    colour("quiet", "#59636e", "#9198a1"),
    colour("line", "#d0d7de", "#3d444d"),
    colour("link", "#0b5394", "#7ab8ee"),
];

/// What is drawn: the colours of Okabe and Ito, and three more for pictures of many series.
const SERIES: [Colour; 9] = [
    colour("blue", "#0072b2", "#4aa3df"),
    colour("orange", "#e69f00", "#f0b429"),
    colour("green", "#009e73", "#2fbf95"),
    colour("purple", "#cc79a7", "#dd92bd"),
    colour("sky", "#56b4e9", "#7cc7f2"),
    colour("vermilion", "#d55e00", "#ff7f3f"),
    colour("grey", "#7a7f87", "#a2a9b2"),
    colour("violet", "#5b3a8e", "#a98ae0"),
    colour("olive", "#8a7a1c", "#c9b548"),
];

/// The fonts of pictures and pages: those of the reader's system.
pub const FONTS: &str = "system-ui, 'Segoe UI', Helvetica, Arial, sans-serif";
/// Size of text in pictures, in px.
pub const TEXT_PX: f64 = 13.0;
/// Size of titles, and of names of panels.
pub const TITLE_PX: f64 = 17.0;
pub const NAME_PX: f64 = 14.0;

/// The colours as custom properties.
pub fn properties() -> String {
    let all = |value: fn(&Colour) -> &'static str| {
        let colours = BASE.iter().chain(&SERIES);
        let set = colours.map(|colour| format!(" --{}: {};", colour.name, value(colour)));
        set.collect::<String>()
    };
    format!(
        ":root {{ color-scheme: light dark;{} }}\n\
         @media screen and (prefers-color-scheme: dark) {{ :root {{{} }} }}\n",
        all(|colour| colour.light),
        all(|colour| colour.dark),
    )
}

/// The rules that pictures share. Those of series are there for the classes that `is_used` names.
pub fn rules(is_used: impl Fn(&str) -> bool) -> String {
    let fill = |colour| paint("fill", colour);
    let stroke = |colour| paint("stroke", colour);
    let mut sheet = format!(
        "svg {{ font: {TEXT_PX}px {FONTS} }}\n\
         .paper {{ {} }} .plot {{ {}; {} }}\n\
         text {{ {} }} .quiet {{ {} }} .title {{ font-size: {TITLE_PX}px; font-weight: 600 }}\n\
         .name {{ font-size: {NAME_PX}px; font-weight: 600 }} \
         .grid {{ {}; stroke-width: 1; fill: none }}\n",
        fill("paper"),
        fill("panel"),
        stroke("line"),
        fill("ink"),
        fill("quiet"),
        stroke("line"),
    );
    for name in SERIES
        .iter()
        .map(|colour| colour.name)
        .chain(["quiet", "ink"])
    {
        if is_used(&format!("fill-{name}")) {
            let _ = writeln!(sheet, ".fill-{name} {{ {} }}", fill(name));
        }
        if is_used(&format!("line-{name}")) {
            let _ = writeln!(sheet, ".line-{name} {{ {}; fill: none }}", stroke(name));
        }
    }
    sheet
}

/// A declaration for a property of a colour by its name.
pub fn paint(property: &str, name: &str) -> String {
    let known = BASE
        .iter()
        .chain(&SERIES)
        .find(|colour| colour.name == name);
    let light = known.map_or("#7a7f87", |colour| colour.light);
    format!("{property}: {light}; {property}: var(--{name})")
}

/// The names of series' colours, in the order in which pictures of many series use them.
pub fn series() -> impl ExactSizeIterator<Item = &'static str> {
    SERIES.iter().map(|colour| colour.name)
}

/// About how wide a text is, in px. No font of [`FONTS`] is much wider.
pub fn text_width(text: &str, size_px: f64) -> f64 {
    let em = |c: char| match c {
        'i' | 'j' | 'l' | 'I' | 't' | 'f' | 'r' | '.' | ',' | ':' | ';' | '\'' | '|' | '!'
        | '(' | ')' | '[' | ']' | ' ' | '/' => 0.34,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 0.92,
        c if c.is_ascii_uppercase() => 0.68,
        c if c.is_ascii() => 0.57,
        c if c < '\u{1100}' => 0.62,
        _ => 1.0,
    };
    text.chars().map(em).sum::<f64>() * size_px
}

/// The beginning of a text that is no wider than `width_px`, with an ellipsis where it is cut.
pub fn fitted(text: &str, size_px: f64, width_px: f64) -> String {
    if text_width(text, size_px) <= width_px {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if text_width(&kept, size_px) + size_px > width_px {
            kept.pop();
            break;
        }
    }
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_colour_has_a_value_for_light_and_dark_and_a_fallback() {
        let properties = properties();
        let (light, dark) = properties.split_once("@media").expect("two schemes");
        for name in series().chain(["paper", "panel", "ink", "quiet", "line", "link"]) {
            let property = format!(" --{name}: #");
            assert!(
                light.contains(&property) && dark.contains(&property),
                "{name}"
            );
        }
        assert_eq!(paint("fill", "blue"), "fill: #0072b2; fill: var(--blue)");
        assert!(rules(|class| class == "line-sky").contains(".line-sky { stroke: #56b4e9"));
        assert!(!rules(|_| false).contains("line-sky"));
    }

    /// Relative luminance, by WCAG.
    fn luminance(hex: &str) -> f64 {
        let part = |at: usize| {
            let value = u8::from_str_radix(&hex[at..at + 2], 16).expect("a colour");
            let value = f64::from(value) / 255.0;
            match value <= 0.03928 {
                true => value / 12.92,
                false => ((value + 0.055) / 1.055).powf(2.4),
            }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn text_has_contrast_in_both_schemes() {
        let of = |name| {
            BASE.iter()
                .find(|colour| colour.name == name)
                .expect("known")
        };
        for back in ["paper", "panel"] {
            for text in ["ink", "quiet", "link"] {
                for value in [
                    |colour: &Colour| colour.light,
                    |colour: &Colour| colour.dark,
                ] {
                    let (a, b) = (luminance(value(of(back))), luminance(value(of(text))));
                    let contrast = (a.max(b) + 0.05) / (a.min(b) + 0.05);
                    assert!(contrast >= 4.5, "{text} on {back}: {contrast:.2}");
                }
            }
        }
    }

    #[test]
    fn long_names_are_cut_to_their_room() {
        assert_eq!(fitted("short", 13.0, 100.0), "short");
        let cut = fitted(&"x".repeat(99), 13.0, 100.0);
        assert!(
            cut.ends_with('…') && text_width(&cut, 13.0) <= 100.0,
            "{cut}"
        );
    }
}
