// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes SVG: elements, attributes and text, escaped, and nothing else.

use std::fmt::{Display, Write as _};

use crate::axes::rounded;

/// Style that all pictures share: background, plot, text and grid, for light and dark.
const STYLE: &str = "
:root { color-scheme: light dark }
svg { font: 13px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif }
.paper { fill: #ffffff } .plot { fill: #f6f8fa; stroke: #d0d7de }
text { fill: #1f2328 } .title { font-size: 17px; font-weight: 600 }
.name { font-size: 14px; font-weight: 600 } .quiet { fill: #59636e }
.grid { stroke: #d0d7de; stroke-width: 1; fill: none }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117 } .plot { fill: #151b23; stroke: #3d444d }
text { fill: #f0f6fc } .quiet { fill: #9198a1 } .grid { stroke: #3d444d }
}
";

/// A picture as it grows.
pub struct Svg {
    text: String,
    open: Vec<&'static str>,
}

impl Svg {
    /// An empty picture of that many units in each direction. The title is for those who can't see
    /// it; the style sheet is CSS, and comes after the one of all pictures.
    pub fn new(width: u32, height: u32, title: &str, style: &str) -> Self {
        let mut svg = Self {
            text: String::new(),
            open: Vec::new(),
        };
        let view_box = format!("0 0 {width} {height}");
        svg.begin(
            "svg",
            &[
                ("xmlns", &"http://www.w3.org/2000/svg"),
                ("viewBox", &view_box),
                ("width", &width),
                ("height", &height),
                ("role", &"img"),
            ],
        );
        svg.line("title", &[], title);
        svg.line("style", &[], &[STYLE, style.trim_start()].concat());
        svg
    }

    /// Begins an element that holds others.
    pub fn begin(&mut self, name: &'static str, attributes: &[(&str, &dyn Display)]) {
        self.tag(name, attributes, ">\n");
        self.open.push(name);
    }

    /// Ends the element that was begun last. The picture itself ends in [`Svg::finish`].
    pub fn end(&mut self) {
        if self.open.len() > 1
            && let Some(name) = self.open.pop()
        {
            self.close(name);
        }
    }

    /// An element without content.
    pub fn empty(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        self.tag(name, attributes, "/>\n");
    }

    /// An element that holds text.
    pub fn line(&mut self, name: &str, attributes: &[(&str, &dyn Display)], text: &str) {
        self.tag(name, attributes, ">");
        push_escaped(&mut self.text, text);
        self.close(name);
    }

    /// The whole picture.
    pub fn finish(mut self) -> String {
        while let Some(name) = self.open.pop() {
            self.close(name);
        }
        self.text
    }

    fn tag(&mut self, name: &str, attributes: &[(&str, &dyn Display)], end: &str) {
        // Writing to a string can't fail.
        let _ = write!(self.text, "<{name}");
        for (key, value) in attributes {
            let _ = write!(self.text, " {key}=\"");
            push_escaped(&mut self.text, &value.to_string());
            self.text.push('"');
        }
        self.text.push_str(end);
    }

    fn close(&mut self, name: &str) {
        let _ = writeln!(self.text, "</{name}>");
    }
}

/// Begins a group that is moved by so much.
pub fn group(svg: &mut Svg, x: f64, y: f64) {
    let translate = format!("translate({} {})", rounded(x), rounded(y));
    svg.begin("g", &[("transform", &translate)]);
}

/// A rectangle, with a title for whoever points at it.
pub fn rect(svg: &mut Svg, class: &str, at: (f64, f64), size: (f64, f64), title: Option<&str>) {
    let [x, y, width, height] = [at.0, at.1, size.0, size.1].map(rounded);
    let place: [(&str, &dyn Display); 5] = [
        ("class", &class),
        ("x", &x),
        ("y", &y),
        ("width", &width),
        ("height", &height),
    ];
    match title {
        None => svg.empty("rect", &place),
        Some(title) => {
            svg.begin("rect", &place);
            svg.line("title", &[], title);
            svg.end();
        }
    }
}

/// A line of text.
pub fn label(svg: &mut Svg, at: (f64, f64), anchor: &str, class: &str, text: &str) {
    let [x, y] = [at.0, at.1].map(rounded);
    let place: [(&str, &dyn Display); 4] = [
        ("class", &class),
        ("x", &x),
        ("y", &y),
        ("text-anchor", &anchor),
    ];
    svg.line("text", &place, text);
}

/// Foreign text as XML, and as HTML.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    push_escaped(&mut escaped, text);
    escaped
}

/// XML allows no control characters but these three, not even escaped.
fn push_escaped(text: &mut String, from: &str) {
    for c in from.chars() {
        match c {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\n' | '\t' | '\r' => text.push(c),
            c if c.is_control() => text.push('\u{fffd}'),
            c => text.push(c),
        }
    }
}

/// Checks that every tag of an XML text is closed in order. Returns the number of elements.
#[cfg(test)]
pub fn assert_well_formed(text: &str) -> usize {
    let mut open: Vec<&str> = Vec::new();
    let mut elements = 0;
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let between = &rest[..start];
        assert!(!between.contains('>'), "a bare >: {between:?}");
        let end = rest[start..].find('>').expect("a tag ends") + start;
        let tag = &rest[start + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes in <{tag}>");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "tags nest");
        } else {
            elements += 1;
            if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().expect("a name"));
            }
        }
        rest = &rest[end + 1..];
    }
    assert!(
        open.is_empty() && rest.trim().is_empty(),
        "{open:?} {rest:?}"
    );
    for (index, _) in text.match_indices('&') {
        let entity = &text[index..];
        let known = ["&amp;", "&lt;", "&gt;", "&quot;"];
        assert!(
            known.iter().any(|known| entity.starts_with(known)),
            "{index}"
        );
    }
    elements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_nest_and_close() {
        let mut svg = Svg::new(30, 20, "a title", "text { fill: red }");
        svg.begin("g", &[("class", &"panel")]);
        svg.empty("rect", &[("x", &1.5), ("width", &7)]);
        svg.line("text", &[], "seven");
        svg.end();
        // One end too many does no harm.
        svg.end();
        svg.begin("g", &[]);
        let text = svg.finish();
        assert_eq!(assert_well_formed(&text), 7);
        assert!(text.contains("viewBox=\"0 0 30 20\""), "{text}");
        assert!(text.contains("<rect x=\"1.5\" width=\"7\"/>"), "{text}");
    }

    #[test]
    fn foreign_text_stays_text() {
        let mut svg = Svg::new(1, 1, "</title><script>", "");
        svg.line("text", &[("id", &"a\"b")], "1 < 2 & 3 > 2\u{1b}[31m");
        let text = svg.finish();
        assert_eq!(assert_well_formed(&text), 4);
        assert!(
            !text.contains("<script") && !text.contains('\u{1b}'),
            "{text}"
        );
        assert!(text.contains("a&quot;b"), "{text}");
    }
}
