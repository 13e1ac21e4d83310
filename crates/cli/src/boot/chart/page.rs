// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boots as one page of HTML: the picture, and the units that waited longest. There is no script,
//! and nothing is fetched.

use foreread_boot::chart::UnitChart;

use super::picture::picture;
use super::{Drawn, headline, sums};
use crate::output;
use crate::picture::page::{self, html as escaped};

const UNITS_MAX: usize = 20;

const STYLE: &str = "th:first-child, td:first-child { text-align: left }\n";

pub fn page(boots: &[Drawn]) -> String {
    let mut page = page::begin("foreread boot chart", STYLE);
    page += "<h1>foreread boot chart</h1>\n";
    for boot in boots {
        page += &format!(
            "<p><strong>{}</strong><br>{}</p>\n",
            escaped(&headline(&boot.trace)),
            escaped(&sums(boot))
        );
    }
    page += &format!(
        "<div class=\"scroll\" tabindex=\"0\">\n{}</div>\n",
        picture(boots)
    );
    for boot in boots {
        page += &table(boot);
    }
    page + page::END
}

/// The units that waited longest.
fn table(boot: &Drawn) -> String {
    let mut units: Vec<&UnitChart> = boot.chart.units.iter().collect();
    units.retain(|unit| unit.waited_ns() > 0);
    units.sort_by_key(|unit| (std::cmp::Reverse(unit.waited_ns()), &unit.name));
    units.truncate(UNITS_MAX);
    let mut table = format!(
        "<h2>Units that waited longest: {}</h2>\n<div class=\"scroll\" tabindex=\"0\">\n<table>\n<tr><th>Unit</th>\
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
