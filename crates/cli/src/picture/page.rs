// SPDX-License-Identifier: MIT OR Apache-2.0
//! The frame of all HTML pages: one file with style and pictures inside, without script or network.

use super::style;
use super::svg::escaped;

const SHEET: &str = include_str!("page.css");

/// A page's beginning, to the opened body. The style of the page comes after the common sheet.
pub fn begin(title: &str, style: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{}{}{SHEET}{style}</style>\n</head>\n<body>\n",
        html(title),
        style::properties(),
        style::rules(|_| true),
    )
}

/// A page's end.
pub const END: &str = "</body>\n</html>\n";

/// Foreign text as HTML, in one line.
pub fn html(text: &str) -> String {
    let is_break = |c: char| if c.is_control() { ' ' } else { c };
    escaped(&text.chars().map(is_break).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_ends_no_tag() {
        assert_eq!(html("a<b>\"c\" & d\n"), "a&lt;b&gt;&quot;c&quot; &amp; d ");
        assert!(begin("</title><script>", "").contains("<title>&lt;/title&gt;&lt;script&gt;<"));
    }
}
