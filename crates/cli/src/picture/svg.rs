// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes SVG: elements, attributes and text, escaped, and nothing else.

use std::fmt::{Display, Write as _};

use super::axis::rounded;
use super::style;

/// A picture as it grows.
pub struct Svg {
    /// What comes before the style sheet, and the rules of this picture alone.
    head: String,
    style: String,
    /// Whether the page around it has the style sheet.
    is_part: bool,
    text: String,
    open: Vec<&'static str>,
}

impl Svg {
    /// An empty picture of that many units in each direction. The title is for those who can't see
    /// it; the style is CSS, and comes after the sheet of all pictures.
    pub fn new(width: u32, height: u32, title: &str, style: &str) -> Self {
        let size: [(&str, &dyn Display); 2] = [("width", &width), ("height", &height)];
        Self::begun(width, height, &size, title, style)
    }

    /// The same for a page that has the style sheet: as wide as the page lets it be.
    pub fn part(width: u32, height: u32, title: &str) -> Self {
        let mut svg = Self::begun(width, height, &[], title, "");
        svg.is_part = true;
        svg
    }

    fn begun(
        width: u32,
        height: u32,
        size: &[(&str, &dyn Display)],
        title: &str,
        style: &str,
    ) -> Self {
        let mut svg = Self {
            head: String::new(),
            style: style.trim_start().to_owned(),
            is_part: false,
            text: String::new(),
            open: Vec::new(),
        };
        let view_box = format!("0 0 {width} {height}");
        let place: [(&str, &dyn Display); 3] = [
            ("xmlns", &"http://www.w3.org/2000/svg"),
            ("viewBox", &view_box),
            ("role", &"img"),
        ];
        svg.begin("svg", &[&place, size].concat());
        svg.line("title", &[], title);
        svg.head = std::mem::take(&mut svg.text);
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
        if self.is_part {
            return self.head + &self.text;
        }
        let is_used = |class: &str| self.text.contains(class);
        let sheet = [style::properties(), style::rules(is_used), self.style].concat();
        format!("{}<style>\n{sheet}</style>\n{}", self.head, self.text)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::check::assert_well_formed;

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
