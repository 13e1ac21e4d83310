// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of pictures for tests: XML that is well formed, labels within the view box, ticks that
//! increase. They look at structure, not at single coordinates.

use super::style::{NAME_PX, TEXT_PX, TITLE_PX, text_width};

/// A label as it is drawn.
#[derive(Debug)]
pub struct Label {
    pub text: String,
    /// Left, top, right and bottom of its box in the picture.
    pub sides: [f64; 4],
    /// Whether it is a number of an axis.
    pub is_tick: bool,
    /// The number of its group of ticks.
    pub group: usize,
}

/// Checks that every tag of an XML text is closed in order. Returns the number of elements.
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
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    elements
}

/// Checks that every label lies in the view box, and that the ticks of each axis go one way and
/// don't touch.
pub fn assert_labels_fit(svg: &str) {
    let view = attribute(svg, "viewBox").expect("a view box");
    let view: Vec<f64> = view
        .split(' ')
        .map(|n| n.parse().expect("a number"))
        .collect();
    let labels = labels(svg);
    assert!(!labels.is_empty(), "labels");
    for label in &labels {
        let [left, top, right, bottom] = label.sides;
        let is_inside = left >= 0.0 && top >= 0.0 && right <= view[2] && bottom <= view[3];
        assert!(is_inside, "{label:?} leaves {view:?}");
    }
    let ticks: Vec<&Label> = labels.iter().filter(|label| label.is_tick).collect();
    for pair in ticks
        .windows(2)
        .filter(|pair| pair[0].group == pair[1].group)
    {
        let ([left, top, right, bottom], next) = (pair[0].sides, pair[1].sides);
        let is_apart =
            next[0] >= right || next[2] <= left || next[1] >= bottom - 4.0 || next[3] <= top + 4.0;
        assert!(is_apart, "{:?} touches {:?}", pair[0], pair[1]);
        let is_increasing = next[0] > left || next[1] < top;
        assert!(is_increasing, "{:?} is not behind {:?}", pair[1], pair[0]);
    }
}

/// The text of every label.
pub fn texts(svg: &str) -> Vec<String> {
    labels(svg).into_iter().map(|label| label.text).collect()
}

/// Every label of a picture.
pub fn labels(svg: &str) -> Vec<Label> {
    let (mut found, mut groups) = (Vec::new(), Vec::new());
    let (mut at, mut number) = ((0.0, 0.0), 0);
    for (start, _) in svg.match_indices('<') {
        let end = svg[start..].find('>').expect("a tag ends") + start;
        let tag = &svg[start + 1..end];
        match tag.split([' ', '>']).next() {
            Some("g") => {
                let is_ticks = attribute(tag, "class").as_deref() == Some("ticks");
                groups.push((at, is_ticks));
                number += 1;
                let (x, y) = translated(tag);
                at = (at.0 + x, at.1 + y);
            }
            Some("/g") => at = groups.pop().expect("a group").0,
            Some("text") => {
                let text = &svg[end + 1..svg[end..].find('<').expect("an end") + end];
                let is_tick = groups.last().is_some_and(|group| group.1);
                found.push(placed(tag, text, at, is_tick, number));
            }
            _ => {}
        }
    }
    found
}

fn placed(tag: &str, text: &str, at: (f64, f64), is_tick: bool, group: usize) -> Label {
    let number = |name| attribute(tag, name).map_or(0.0, |n| n.parse().expect("a number"));
    let class = attribute(tag, "class").unwrap_or_default();
    let size = match &*class {
        "title" => TITLE_PX,
        "name" => NAME_PX,
        _ => TEXT_PX,
    };
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    let text = text.replace("&quot;", "\"").replace("&amp;", "&");
    let width = text_width(&text, size);
    let before = match attribute(tag, "text-anchor").as_deref() {
        Some("middle") => width / 2.0,
        Some("end") => width,
        _ => 0.0,
    };
    let (dx, dy) = translated(tag);
    let (x, y) = (at.0 + dx + number("x"), at.1 + dy + number("y"));
    let sides = match tag.contains("rotate(-90)") {
        true => [
            x - size * 0.8,
            y - (width - before),
            x + size * 0.2,
            y + before,
        ],
        false => [
            x - before,
            y - size * 0.8,
            x - before + width,
            y + size * 0.2,
        ],
    };
    Label {
        text,
        sides,
        is_tick,
        group,
    }
}

fn translated(tag: &str) -> (f64, f64) {
    let Some(rest) = tag.split("translate(").nth(1) else {
        return (0.0, 0.0);
    };
    let mut numbers = rest.split(')').next().unwrap_or_default().split(' ');
    let mut next = || {
        numbers
            .next()
            .and_then(|n| n.parse().ok())
            .expect("a number")
    };
    (next(), next())
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let rest = tag.split(&format!(" {name}=\"")).nth(1)?;
    Some(rest.split('"').next()?.to_owned())
}
