// SPDX-License-Identifier: MIT OR Apache-2.0
//! Links of Markdown texts that must lead somewhere in the tree.

use crate::Finding;
use std::collections::{BTreeMap, BTreeSet};

/// The tracked files: path from the top, and the text where it is UTF-8.
pub type Tree = BTreeMap<String, Option<String>>;

/// Links in the Markdown file `path` that lead to no tracked file or folder, or to no heading.
/// Links out of the tree (`https:` and the like) are not checked.
#[must_use]
pub fn dead_links(path: &str, text: &str, tree: &Tree) -> Vec<Finding> {
    if !path.ends_with(".md") {
        return Vec::new();
    }
    let links = prose(text).flat_map(|(number, line)| {
        targets(&line)
            .into_iter()
            .map(move |target| (number, target))
            .collect::<Vec<_>>()
    });
    links
        .filter_map(|(number, target)| {
            let what = dead(path, text, &target, tree)?;
            Some(Finding::new(
                path,
                number,
                format!("link to `{target}`: {what}"),
            ))
        })
        .collect()
}

/// The error of one link; `None` when it is good.
fn dead(path: &str, text: &str, target: &str, tree: &Tree) -> Option<String> {
    let scheme = target.split(['/', '#', '?']).next().unwrap_or("");
    if scheme.contains(':') {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let headings = if file.is_empty() {
        anchors(text)
    } else {
        let Some(file) = resolve(path, file) else {
            return Some("leads out of the repository".to_owned());
        };
        let folder = format!("{file}/");
        if !tree.contains_key(&file) && !tree.keys().any(|path| path.starts_with(&folder)) {
            return Some(format!("no tracked file or folder {file}"));
        }
        match tree.get(&file) {
            Some(Some(text)) if file.ends_with(".md") => anchors(text),
            _ => return None,
        }
    };
    (!anchor.is_empty() && !headings.contains(anchor))
        .then(|| format!("no heading gives the anchor #{anchor}"))
}

/// The path from the top that `target` means in the file `path`; `None` above the top.
fn resolve(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        parts.clear();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The lines outside of code blocks, with their numbers from 1 and without code spans.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            return None;
        }
        let without_spans = line.split('`').step_by(2).collect::<Vec<_>>().join("` `");
        (!in_code).then_some((index + 1, without_spans))
    })
}

/// Where the links of one line lead: `](target)`, `src="target"`, `href="target"`, `srcset=`, and
/// definitions `[name]: target`.
fn targets(line: &str) -> Vec<String> {
    let mut targets = Vec::new();
    let forms = [
        ("](", ')'),
        ("src=\"", '"'),
        ("href=\"", '"'),
        ("srcset=\"", '"'),
    ];
    for (start, end) in forms {
        for (at, _) in line.match_indices(start) {
            let rest = &line[at + start.len()..];
            targets.push(rest.split(end).next().unwrap_or(rest));
        }
    }
    if let Some((_, target)) = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
    {
        targets.push(target);
    }
    // A title may follow the target.
    let bare = targets
        .into_iter()
        .filter_map(|target| target.split_whitespace().next());
    bare.map(|target| target.trim_matches(['<', '>']).to_owned())
        .collect()
}

/// The anchors that GitHub gives the headings of a text.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if in_code || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
        let anchor: String = title.trim().chars().filter(kept).collect();
        let anchor = anchor.to_lowercase().replace(' ', "-");
        let twins = (1..).map(|n| format!("{anchor}-{n}"));
        let free = std::iter::once(anchor.clone())
            .chain(twins)
            .find(|a| !anchors.contains(a));
        anchors.extend(free);
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let file = |path: &str, text: &str| (path.to_owned(), Some(text.to_owned()));
        BTreeMap::from([
            file("README.md", "# A\n"),
            file(
                "docs/GUIDE.md",
                "# The guide: `run` & more\n## Part\n## Part\n```\n# no\n```\n",
            ),
            file("docs/img/a.svg", "<svg/>"),
        ])
    }

    fn dead_in(path: &str, text: &str) -> Vec<String> {
        let found = dead_links(path, text, &tree());
        found
            .into_iter()
            .map(|finding| finding.to_string())
            .collect()
    }

    #[test]
    fn good_links_pass() {
        let text = "# Here\n[a](docs/GUIDE.md#the-guide-run--more)\n\
                    [b](docs/GUIDE.md#part-1 \"t\")\n\
                    ![c](docs/img/a.svg) [d](docs/) [e](#here) [f](https://x.y/z)\n\
                    <img src=\"docs/img/a.svg\">\n\
                    [g]: docs/GUIDE.md\n`[h](nowhere)`\n```\n[i](nowhere)\n```\n";
        assert_eq!(dead_in("README.md", text), Vec::<String>::new());
        assert_eq!(
            dead_in("docs/GUIDE.md", "[up](../README.md#a)"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn dead_links_are_named() {
        assert_eq!(
            dead_in("README.md", "\n[a](docs/GONE.md)\n"),
            ["README.md:2: link to `docs/GONE.md`: no tracked file or folder docs/GONE.md"]
        );
        assert_eq!(
            dead_in(
                "docs/GUIDE.md",
                "# X\n[a](../../x.md) [b](#y) [c](img/a.png)\n"
            ),
            [
                "docs/GUIDE.md:2: link to `../../x.md`: leads out of the repository",
                "docs/GUIDE.md:2: link to `#y`: no heading gives the anchor #y",
                "docs/GUIDE.md:2: link to `img/a.png`: no tracked file or folder docs/img/a.png",
            ]
        );
    }
}
