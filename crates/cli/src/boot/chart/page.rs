// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boots as one page of HTML: the picture, the units that waited longest, and those that the
//! default target waited for. There is no script, and nothing is fetched.

use foreread_boot::chart::{Chart, UnitChart};

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
        page += &waits(boot);
        page += &chain(boot);
    }
    page + page::END
}

/// A cell of a time that may be unknown.
fn time(at: Option<u64>) -> String {
    at.map_or("-".to_owned(), output::time)
}

/// A table in a frame that is scrolled by itself.
fn table(title: &str, header: &[&str], rows: &str) -> String {
    let header: String = header
        .iter()
        .map(|name| format!("<th>{name}</th>"))
        .collect();
    format!(
        "<h2>{}</h2>\n<div class=\"scroll\" tabindex=\"0\">\n<table>\n<tr>{header}</tr>\n{rows}\
         </table>\n</div>\n",
        escaped(title)
    )
}

/// What a unit was started after. After a long gap it has waited for something else.
fn started_after(chart: &Chart, unit: &UnitChart) -> String {
    match unit.after {
        None => "-".to_owned(),
        Some(after) => {
            let gap = match after.is_close() {
                true => String::new(),
                false => format!(", {} later", output::time(after.gap_ns)),
            };
            format!("{}{gap}", escaped(chart.name(after.unit)))
        }
    }
}

/// The units that waited longest.
fn waits(boot: &Drawn) -> String {
    let mut units: Vec<&UnitChart> = boot.chart.units.iter().collect();
    units.retain(|unit| unit.waited_ns() > 0);
    units.sort_by_key(|unit| (std::cmp::Reverse(unit.waited_ns()), &unit.name));
    units.truncate(UNITS_MAX);
    let row = |unit: &UnitChart| {
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.1}</td><td>{}</td>\
             <td>{}</td><td class=\"text\">{}</td></tr>\n",
            escaped(&unit.name),
            output::time(unit.waited_ns()),
            output::time(unit.served.replay_ns),
            output::time(unit.served.units_ns().saturating_add(unit.served.other_ns)),
            unit.reads.requests,
            unit.reads.bytes as f64 / f64::from(1 << 20),
            time(unit.started_ns),
            time(unit.active_ns),
            started_after(&boot.chart, unit),
        )
    };
    let rows: String = units.into_iter().map(row).collect();
    let header = [
        "Unit",
        "Waited for disk",
        "Of that behind the replay",
        "Behind others",
        "Reads",
        "MiB",
        "Started at",
        "Active at",
        "Started after",
    ];
    let title = format!("Units that waited longest: {}", headline(&boot.trace));
    table(&title, &header, &rows)
}

/// The units that the default target waited for.
fn chain(boot: &Drawn) -> String {
    let Drawn { trace, chart } = boot;
    if !chart.has_order {
        return "<p>This trace doesn't tell what units were started after: it was made without \
                systemd's answer, or by an earlier version.</p>\n"
            .to_owned();
    }
    let row = |place: &usize| {
        let unit = chart.units.get(*place)?;
        Some(format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            escaped(&unit.name),
            time(unit.after.map(|after| after.gap_ns)),
            time(unit.started_ns),
            time(unit.done_ns),
            output::time(unit.waited_ns()),
            output::time(unit.served.replay_ns),
        ))
    };
    let rows: String = chart.chain.iter().filter_map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let header = [
        "Unit",
        "After the one above",
        "Started at",
        "Active or ended at",
        "Waited for disk",
        "Of that behind the replay",
    ];
    let title = format!("What the default target waited for: {}", headline(trace));
    table(&title, &header, &rows)
}

#[cfg(test)]
mod tests {
    use super::super::picture::tests::{boot, ordered_boot};
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

    #[test]
    fn what_waited_for_what_is_told() {
        let page = page(&[ordered_boot(Mode::Replayed, 4)]);
        let (waits, chain) = page
            .split_once("What the default target waited for")
            .unwrap();
        for name in [
            "Waited for disk",
            "Of that behind the replay",
            "Started after",
        ] {
            assert!(
                waits.contains(&format!("<th>{name}</th>")),
                "{name}: {page}"
            );
        }
        // After a long gap it has waited for something else.
        assert!(
            waits.contains("&lt;0&gt;.service, 1.00 s later</td>"),
            "{waits}"
        );
        assert!(waits.contains("&lt;1&gt;.service</td></tr>"), "{waits}");
        let rows: Vec<&str> = chain.split("<tr><td>").skip(1).collect();
        assert_eq!(rows.len(), 3, "{chain}");
        assert!(
            rows[0].contains("&lt;0&gt;") && rows[2].contains("&lt;3&gt;"),
            "{chain}"
        );
        assert!(
            rows[2].contains("<td>200 ms</td><td>3.20 s</td>"),
            "{chain}"
        );
        let without = super::page(&[boot(Mode::Replayed, 4)]);
        assert!(
            without.contains("doesn't tell what units were started after"),
            "{without}"
        );
    }
}
