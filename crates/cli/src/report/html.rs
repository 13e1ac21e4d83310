// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of a page. Everything that goes in is text, and comes out escaped: names and paths of a
//! machine may hold anything.

use crate::picture::page::html;

/// A column of a table.
#[derive(Clone, Copy)]
pub enum Column {
    /// Words that may wrap.
    Text(&'static str),
    /// Words that don't.
    Short(&'static str),
    Number(&'static str),
}

impl Column {
    const fn parts(self) -> (&'static str, &'static str) {
        match self {
            Self::Text(name) => (name, " class=\"text\""),
            Self::Short(name) => (name, " class=\"text short\""),
            Self::Number(name) => (name, ""),
        }
    }
}

/// A table that scrolls where it is wider than the page.
pub fn table(about: &str, columns: &[Column], rows: &[Vec<String>]) -> String {
    let mut table = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\n\
         <table aria-label=\"{0}\">\n<thead><tr>",
        html(about)
    );
    for column in columns {
        let (name, class) = column.parts();
        table += &format!("<th scope=\"col\"{class}>{name}</th>");
    }
    table += "</tr></thead>\n<tbody>\n";
    for row in rows {
        table += "<tr>";
        for (cell, column) in row.iter().zip(columns) {
            table += &format!("<td{}>{}</td>", column.parts().1, html(cell));
        }
        table += "</tr>\n";
    }
    table + "</tbody>\n</table>\n</div>\n"
}

/// Text with what stands in backquotes as code. One without its partner stays as it is.
fn marked(text: &str) -> String {
    let escaped = html(text);
    let parts: Vec<&str> = escaped.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return escaped;
    }
    let mark = |(at, part): (usize, &&str)| match at % 2 {
        0 => (*part).to_owned(),
        _ => format!("<code>{part}</code>"),
    };
    parts.iter().enumerate().map(mark).collect()
}

/// A paragraph.
pub fn paragraph(text: &str) -> String {
    format!("<p>{}</p>\n", marked(text))
}

/// A paragraph of less weight.
pub fn soft(text: &str) -> String {
    format!("<p class=\"soft\">{}</p>\n", marked(text))
}

/// A heading of a section, which links lead to.
pub fn section(id: &str, name: &str, content: &str) -> String {
    let name = html(name);
    format!("<section id=\"{id}\">\n<h2>{name}</h2>\n{content}</section>\n")
}

/// A tile of the summary: a number, what it is, and the section about it.
pub fn tile(id: &str, number: &str, what: &str) -> String {
    let (number, what) = (html(number), html(what));
    format!("<li><a href=\"#{id}\"><strong>{number}</strong><span>{what}</span></a></li>\n")
}

/// Commands, with what each is for.
pub fn steps<'a>(steps: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut list = "<ol class=\"steps\">\n".to_owned();
    for (command, what) in steps {
        let (command, what) = (html(command), html(what));
        list += &format!("<li><code>{command}</code><br>{what}</li>\n");
    }
    list + "</ol>\n"
}

/// What classes of bars and lines mean.
pub fn legend(entries: &[(&str, &str)]) -> String {
    let mut list = "<ul class=\"legend\">\n".to_owned();
    for (class, words) in entries {
        let is_line = class.contains("line-");
        let mark = match is_line {
            true => format!("<path class=\"{class}\" d=\"M0 5H10\"/>"),
            false => format!("<rect class=\"{class}\" width=\"10\" height=\"10\"/>"),
        };
        list += &format!(
            "<li><svg viewBox=\"0 0 10 10\" aria-hidden=\"true\">{mark}</svg>{}</li>\n",
            html(words)
        );
    }
    list + "</ul>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_code() {
        assert_eq!(marked("`a <b>` or c"), "<code>a &lt;b&gt;</code> or c");
        assert_eq!(marked("a ` b"), "a ` b");
    }

    #[test]
    fn what_goes_in_is_text() {
        let hostile = "<script>alert(1)</script>\n\"&\u{1b}";
        let made = [
            table(hostile, &[Column::Text("x")], &[vec![hostile.to_owned()]]),
            paragraph(hostile),
            soft(hostile),
            section("x", hostile, ""),
            tile("x", hostile, hostile),
            steps([(hostile, hostile)]),
            legend(&[("fill-blue", hostile)]),
        ];
        for made in made {
            assert!(
                !made.contains("<script") && !made.contains('\u{1b}'),
                "{made}"
            );
            assert!(made.contains("&lt;script&gt;"), "{made}");
        }
    }
}
