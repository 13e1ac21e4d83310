// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules for source files: licence line, line length, trailing space, words, `unsafe`.

use crate::Finding;

/// Columns of a source line, as in `rustfmt.toml` and `.clang-format`.
const COLUMNS_MAX: usize = 100;
/// The same, of lines with a text between quotes.
const COLUMNS_OF_TEXT_MAX: usize = 140;
/// A tab in C, as in `.clang-format`.
const TAB_COLUMNS: usize = 8;
/// Maximum distance of an `unsafe` from the reason above it, in lines.
const SAFETY_LINES_MAX: usize = 12;

/// Words and calls that mark unfinished work. Put together here, so that this file passes itself.
const MARKERS: [&str; 6] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("X", "XX"),
    concat!("to", "do!("),
    concat!("unimpl", "emented!("),
    concat!("#[ign", "ore"),
];

/// Crates that call the kernel and may therefore hold `unsafe` code.
const UNSAFE_CRATES: [&str; 3] = ["crates/bpf/", "crates/sys/", "crates/testbed/"];
/// The crate that calls the C core; one file of it may hold `unsafe` code.
const FFI_CRATE: &str = "crates/core/";

fn extension(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// Kernel types written by a program, and licence texts written by others.
fn is_foreign(path: &str) -> bool {
    path.starts_with("LICENSES/") || (path.contains("vmlinux") && path.ends_with(".h"))
}

/// Rust or C.
fn is_code(path: &str) -> bool {
    matches!(extension(path), "rs" | "c" | "h") && !is_foreign(path)
}

/// Code, scripts, manifests, Makefiles.
fn is_source(path: &str, text: &str) -> bool {
    let named = matches!(extension(path), "sh" | "py" | "bt")
        || path.ends_with("Cargo.toml")
        || path.ends_with("Makefile");
    (is_code(path) || named || text.starts_with("#!")) && !is_foreign(path)
}

/// The licence line: first, or second after `#!`, and the one that the folder asks for.
#[must_use]
pub fn licence_line(path: &str, text: &str) -> Vec<Finding> {
    if !is_source(path, text) {
        return Vec::new();
    }
    let in_kernel = ["bpf/", "core/", "tests/guest/disk/"]
        .iter()
        .any(|folder| path.starts_with(folder));
    let licence = if path.starts_with("module/") {
        "GPL-2.0-only"
    } else if in_kernel {
        "GPL-2.0-only OR BSD-2-Clause"
    } else {
        "MIT OR Apache-2.0"
    };
    let wanted = format!("SPDX-License-Identifier: {licence}");
    let index = usize::from(text.starts_with("#!"));
    let line = text.lines().nth(index).unwrap_or("");
    let comment = line
        .trim_start_matches(['/', '*', '#'])
        .trim_end_matches(['/', '*'])
        .trim();
    if comment == wanted {
        return Vec::new();
    }
    vec![Finding::new(
        path,
        index + 1,
        format!("expected `{wanted}` here"),
    )]
}

/// Finds lines of code that are too wide. Exempt are lines with a URL, and lines with a text
/// between quotes, which people search for as a whole.
#[must_use]
pub fn long_lines(path: &str, text: &str) -> Vec<Finding> {
    if !is_code(path) {
        return Vec::new();
    }
    let columns = |line: &str| {
        line.chars().fold(0, |column, c| match c {
            '\t' => (column / TAB_COLUMNS + 1) * TAB_COLUMNS,
            _ => column + 1,
        })
    };
    findings(path, text, |line| {
        let columns = columns(line);
        let most = if line.contains('"') || line.ends_with('\\') {
            COLUMNS_OF_TEXT_MAX
        } else {
            COLUMNS_MAX
        };
        (columns > most && !line.contains("://"))
            .then(|| format!("{columns} columns, at most {COLUMNS_MAX}"))
    })
}

/// Blanks at the end of a line, in sources and texts.
#[must_use]
pub fn trailing_space(path: &str, text: &str) -> Vec<Finding> {
    if !is_source(path, text) && !matches!(extension(path), "md" | "toml") || is_foreign(path) {
        return Vec::new();
    }
    let blank = |line: &str| line.ends_with([' ', '\t', '\r']);
    findings(path, text, |line| {
        blank(line).then(|| "blanks at the end of the line".to_owned())
    })
}

/// Markers of unfinished work, in sources and texts.
#[must_use]
pub fn unfinished(path: &str, text: &str) -> Vec<Finding> {
    if !is_source(path, text) && extension(path) != "md" || is_foreign(path) {
        return Vec::new();
    }
    findings(path, text, |line| {
        let marker = MARKERS.iter().find(|marker| contains_word(line, marker))?;
        Some(format!(
            "`{marker}` marks unfinished work: finish it or take it out"
        ))
    })
}

/// A crate's root file must forbid `unsafe`, but in the crates that call the kernel. The one that
/// calls the C core must deny it, and only its `ffi.rs` may allow it again.
#[must_use]
pub fn forbids_unsafe(path: &str, text: &str) -> Vec<Finding> {
    if path.starts_with(FFI_CRATE) {
        return denies_unsafe(path, text);
    }
    let in_crate = path
        .strip_prefix("crates/")
        .and_then(|rest| rest.split_once('/'));
    let is_root = in_crate.is_some_and(|(_, file)| {
        matches!(file, "src/lib.rs" | "src/main.rs")
            || (file.starts_with("src/bin/") && extension(file) == "rs")
    });
    let may = UNSAFE_CRATES.iter().any(|folder| path.starts_with(folder));
    let forbids = text.lines().any(|line| line == "#![forbid(unsafe_code)]");
    if !is_root || may || forbids {
        return Vec::new();
    }
    let what = "expected `#![forbid(unsafe_code)]`: only crates/bpf, sys and testbed go without";
    vec![Finding::new(path, 1, what)]
}

/// The rule for [`FFI_CRATE`].
fn denies_unsafe(path: &str, text: &str) -> Vec<Finding> {
    let file = path.strip_prefix(FFI_CRATE).unwrap_or(path);
    if file == "src/lib.rs" && !text.lines().any(|line| line == "#![deny(unsafe_code)]") {
        let what = "expected `#![deny(unsafe_code)]`: only src/ffi.rs goes without";
        return vec![Finding::new(path, 1, what)];
    }
    if file == "src/ffi.rs" || extension(path) != "rs" {
        return Vec::new();
    }
    findings(path, text, |line| {
        let allows = line.contains("allow(unsafe_code)") || line.contains("expect(unsafe_code)");
        allows.then(|| "unsafe code belongs into src/ffi.rs".to_owned())
    })
}

/// Every `unsafe` block and `unsafe impl` has its reason above it.
#[must_use]
pub fn unsafe_reasons(path: &str, text: &str) -> Vec<Finding> {
    if extension(path) != "rs" {
        return Vec::new();
    }
    let lines: Vec<&str> = text.lines().collect();
    let has_reason = |index: usize| {
        let above = lines[..=index].iter().rev().take(SAFETY_LINES_MAX);
        above
            .take_while(|line| !line.trim().is_empty())
            .any(|line| line.contains("SAFETY:"))
    };
    let unexplained = lines
        .iter()
        .enumerate()
        .filter(|(index, line)| starts_unsafe(line) && !has_reason(*index));
    unexplained
        .map(|(index, _)| {
            let what = "`unsafe` without a `// SAFETY:` comment above that says why it is sound";
            Finding::new(path, index + 1, what)
        })
        .collect()
}

/// Whether an `unsafe` block or `unsafe impl` starts in this line of Rust.
fn starts_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or(line);
    code.match_indices("unsafe").any(|(at, word)| {
        let alone = !code[..at].ends_with(|c: char| c.is_alphanumeric() || "_\"`".contains(c));
        let after = code[at + word.len()..].trim_start();
        alone
            && (after.starts_with('{') || after.starts_with("impl ") || after.starts_with("impl<"))
    })
}

/// Whether `word` stands in `line`, not as a part of a longer word.
fn contains_word(line: &str, word: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].ends_with(in_word);
        let after = line[at + word.len()..].starts_with(in_word) && word.ends_with(in_word);
        !before && !after
    })
}

fn findings(path: &str, text: &str, rule: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let lines = text.split('\n').enumerate();
    lines
        .filter_map(|(i, line)| rule(line).map(|what| Finding::new(path, i + 1, what)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUST: &str = "// SPDX-License-Identifier: MIT OR Apache-2.0\n";

    fn lines(findings: Vec<Finding>) -> Vec<usize> {
        findings.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn the_licence_line_fits_the_folder() {
        let c = "/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */\n";
        let sh = "#!/bin/sh\n# SPDX-License-Identifier: MIT OR Apache-2.0\n";
        assert_eq!(licence_line("crates/a/src/lib.rs", RUST), []);
        assert_eq!(licence_line("bpf/a.bpf.c", c), []);
        assert_eq!(licence_line("scripts/a.sh", sh), []);
        assert_eq!(licence_line(".ci/run", sh), []);
        assert_eq!(licence_line("README.md", "# Foreread\n"), []);
        let module = "// SPDX-License-Identifier: GPL-2.0-only\n";
        assert_eq!(licence_line("module/a.c", module), []);
        assert_eq!(lines(licence_line("module/a.c", c)), [1]);
        assert_eq!(lines(licence_line("bpf/a.h", RUST)), [1]);
        assert_eq!(lines(licence_line("crates/a/src/a.c", c)), [1]);
        assert_eq!(lines(licence_line("tool", "#!/bin/sh\necho\n")), [2]);
        assert_eq!(lines(licence_line("crates/a/src/lib.rs", "")), [1]);
    }

    #[test]
    fn tabs_count_as_eight_and_urls_do_not_count() {
        let wide = "x".repeat(93);
        assert_eq!(long_lines("a.c", &format!("\t{}", "x".repeat(92))), []);
        assert_eq!(lines(long_lines("a.c", &format!("\n\t{wide}"))), [2]);
        assert_eq!(long_lines("a.rs", &format!("// https://a.b/{wide}")), []);
        assert_eq!(long_lines("bpf/vmlinux_subset.h", &format!("\t{wide}")), []);
        assert_eq!(long_lines("a.rs", &"ä".repeat(100)), []);
    }

    #[test]
    fn blanks_at_the_end_are_found() {
        assert_eq!(
            lines(trailing_space("a.md", "a\nb \nc\t\nd\r\n")),
            [2, 3, 4]
        );
        assert_eq!(trailing_space("LICENSES/MIT.txt", "a \n"), []);
        assert_eq!(trailing_space("tests/cmd/run.trycmd", "> \n"), []);
    }

    #[test]
    fn markers_are_found_as_words() {
        let text = format!("a\n// {}: later\n{})\n", MARKERS[0], MARKERS[3]);
        assert_eq!(lines(unfinished("a.rs", &text)), [2, 3]);
        assert_eq!(
            unfinished("a.sh", "mktemp /tmp/foreread.XXXXXX\nauto_todo\n"),
            []
        );
        assert_eq!(
            lines(unfinished("a.rs", &format!("{}]\n", MARKERS[5]))),
            [1]
        );
    }

    #[test]
    fn crate_roots_forbid_unsafe() {
        let text = format!("{RUST}#![forbid(unsafe_code)]\n");
        assert_eq!(forbids_unsafe("crates/a/src/lib.rs", &text), []);
        assert_eq!(forbids_unsafe("crates/a/src/other.rs", RUST), []);
        assert_eq!(forbids_unsafe("crates/sys/src/lib.rs", RUST), []);
        assert_eq!(lines(forbids_unsafe("crates/a/src/main.rs", RUST)), [1]);
        let allow = concat!("#![allow(unsafe", "_code)]\n");
        assert_eq!(forbids_unsafe("crates/core/src/ffi.rs", allow), []);
        assert_eq!(lines(forbids_unsafe("crates/core/src/x.rs", allow)), [1]);
        assert_eq!(lines(forbids_unsafe("crates/core/src/lib.rs", RUST)), [1]);
        let deny = format!("{RUST}#![deny(unsafe_code)]\n");
        assert_eq!(forbids_unsafe("crates/core/src/lib.rs", &deny), []);
        assert_eq!(lines(forbids_unsafe("crates/a/src/bin/b.rs", RUST)), [1]);
    }

    #[test]
    fn unsafe_needs_its_reason() {
        let good = "// SAFETY: the fd is ours.\nlet n =\n    unsafe { f() };\n";
        let bad = "// SAFETY: above.\n\nlet n = unsafe { f() };\nunsafe impl Send for A {}\n";
        assert_eq!(unsafe_reasons("a.rs", good), []);
        assert_eq!(lines(unsafe_reasons("a.rs", bad)), [3, 4]);
        assert_eq!(
            unsafe_reasons("a.rs", "unsafe extern \"C\" {}\n// unsafe {\n"),
            []
        );
    }
}
