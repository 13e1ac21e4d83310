// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boots as one page of HTML: the picture, and the units that waited longest. There is no script,
//! and nothing is fetched.

use foreread_boot::chart::UnitChart;

use super::picture::picture;
use super::{Drawn, headline, sums};
use crate::output;
use crate::svg::escaped;

const UNITS_MAX: usize = 20;

const STYLE: &str = "
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, 'Segoe UI', Helvetica, Arial, sans-serif }
body { margin: 0 auto; max-width: 1248px; padding: 12px 24px }
.wide { overflow-x: auto } .wide svg { min-width: 900px; width: 100%; height: auto }
table { border-collapse: collapse }
th, td { padding: 2px 16px 2px 0; text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left } h1 { font-size: 22px } h2 { font-size: 16px }
@media (max-width: 600px) { body { padding: 8px 12px } }
";

pub fn page(boots: &[Drawn]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
         name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>foreread boot \
         chart</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>foreread boot chart</h1>\n"
    );
    for boot in boots {
        page += &format!(
            "<p><strong>{}</strong><br>{}</p>\n",
            escaped(&headline(&boot.trace)),
            escaped(&sums(boot))
        );
    }
    page += &format!("<div class=\"wide\">\n{}</div>\n", picture(boots));
    for boot in boots {
        page += &table(boot);
    }
    page + "</body>\n</html>\n"
}

/// The units that waited longest.
fn table(boot: &Drawn) -> String {
    let mut units: Vec<&UnitChart> = boot.chart.units.iter().collect();
    units.retain(|unit| unit.waited_ns() > 0);
    units.sort_by_key(|unit| (std::cmp::Reverse(unit.waited_ns()), &unit.name));
    units.truncate(UNITS_MAX);
    let mut table = format!(
        "<h2>Units that waited longest: {}</h2>\n<div class=\"wide\">\n<table>\n<tr><th>Unit</th>\
         <th>Waited</th><th>Reads</th><th>MiB</th><th>Started at</th><th>Active at</th></tr>\n",
        escaped(&headline(&boot.trace))
    );
    let time = |at: Option<u64>| at.map_or("-".to_owned(), output::time);
    for unit in units {
        table += &format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.1}</td><td>{}</td><td>{}</td></tr>\n",
            escaped(&unit.name),
            output::time(unit.waited_ns()),
            unit.reads.requests,
            unit.reads.bytes as f64 / f64::from(1 << 20),
            time(unit.started_ns),
            time(unit.active_ns),
        );
    }
    table + "</table>\n</div>\n"
}

#[cfg(test)]
mod tests {
    use super::super::picture::tests::boot;
    use super::*;
    use foreread_boot::Mode;

    #[test]
    fn a_page_needs_nothing_else() {
        let page = page(&[boot(Mode::Plain, 30), boot(Mode::Replayed, 3)]);
        let rows = page.matches("<tr><td>").count();
        assert_eq!(rows, UNITS_MAX + 3, "{page}");
        assert!(page.contains("&lt;0&gt;.service</td>"), "{page}");
        for foreign in ["<script", "src=", "href=", "url("] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
}
