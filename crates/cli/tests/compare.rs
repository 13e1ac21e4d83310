// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread compare`: the table, the document, the page, and what it refuses.

mod common;

use std::collections::BTreeSet;
use std::fs;

use common::{World, assert_fails_in_one_line, browser, stderr, stdout};
use serde_json::Value;

/// Two workloads: one where readahead is worth everything, one where it is worth nothing.
fn world() -> World {
    let world = World::new();
    let scenario = |about: &str, top: &str, program: &str| {
        format!(
            "about = \"{about}\"\nworkload = \"W0\"\n{top}[device]\npreset = [\"hdd\", \"nvme\"]\n\
             [machine]\nmemory = [\"2M\", \"8M\"]\n[[file]]\nname = \"data\"\nsize = \"4M\"\n\
             [[program]]\nfile = \"data\"\nvictim = true\n{program}"
        )
    };
    fs::create_dir(world.path("workloads")).expect("a directory");
    let workloads = [
        ("scan", scenario("Reads <all> & ends.", "", "")),
        (
            "jumps",
            scenario(
                "Jumps.",
                "random = true\n",
                "pattern = \"random\"\nthrough = \"mmap\"\nrequests = 200\n",
            ),
        ),
    ];
    for (name, text) in workloads {
        fs::write(world.path("workloads").join(format!("{name}.toml")), text).expect("a scenario");
    }
    fs::write(world.path("workloads/notes.txt"), "no scenario").expect("a file");
    world
}

fn document(world: &World, more: &[&str]) -> Value {
    let arguments = [&["compare", "workloads", "--json"], more].concat();
    let output = world.output(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("one document")
}

#[test]
fn the_oracle_is_a_limit_and_no_rival() {
    let document = document(&world(), &["--policy", "none,oracle"]);
    for cell in document["cells"].as_array().expect("cells") {
        let stalls: Vec<u64> = cell["policies"]
            .as_array()
            .expect("policies")
            .iter()
            .map(|policy| policy["stall_ns"].as_u64().expect("a number"))
            .collect();
        assert!(stalls[2] <= stalls[0].min(stalls[1]) * 51 / 50, "{cell}");
    }
    let summaries = document["parts"][0]["policies"]
        .as_array()
        .expect("summaries");
    let least = |place: usize| summaries[place]["least_cells"].as_u64().expect("a number");
    assert!(
        least(0) + least(1) >= 8,
        "some rival is the least of each cell"
    );
    assert_eq!(summaries[0]["to_oracle"], 0.0);
    assert_eq!(summaries[2]["to_oracle"], 1.0);
}

#[test]
fn the_document_has_every_cell_and_summaries_that_follow_from_them() {
    let document = document(&world(), &["--policy", "none,linux,safe-2010,none"]);
    assert_eq!(document["schema"], "foreread.compare/1");
    let names = ["linux", "none", "safe-2010"];
    assert_eq!(document["policies"], serde_json::json!(names));
    let cells = document["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2 * 2 * 2);
    let part = &document["parts"][0];
    assert_eq!(part["cells"], 8);
    for (place, name) in names.iter().enumerate() {
        let of = |cell: &Value, field: &str| cell["policies"][place][field].clone();
        assert!(cells.iter().all(|cell| of(cell, "policy") == *name));
        assert!(
            cells
                .iter()
                .all(|cell| of(cell, "victim_stall_ns") == of(cell, "stall_ns"))
        );
        let stall: u64 = cells
            .iter()
            .filter_map(|cell| of(cell, "stall_ns").as_u64())
            .sum();
        let least = cells
            .iter()
            .filter(|cell| of(cell, "least") == true)
            .count();
        assert_eq!(part["policies"][place]["stall_ns"], stall);
        assert_eq!(part["policies"][place]["least_cells"], least);
        let worst = &part["policies"][place]["worst"]["to_linux"];
        let ratios = cells
            .iter()
            .filter_map(|cell| of(cell, "to_linux").as_f64());
        assert_eq!(worst.as_f64(), ratios.reduce(f64::max));
    }
    // Without readahead a scan waits much longer; read-around fetches what nobody jumps to.
    let to_linux = |place: usize| {
        part["policies"][place]["to_linux"]
            .as_f64()
            .expect("a ratio")
    };
    assert!(to_linux(0) == 1.0 && to_linux(1) > 1.5);
    let random = |place: usize| part["policies"][place]["random_amplification"].as_f64();
    assert!(random(0) > Some(1.5) && random(1) == Some(1.0), "{part:#}");
}

#[test]
fn the_same_comes_out_each_time_and_options_replace_what_workloads_say() {
    let world = world();
    let more = [
        "--device",
        "usb",
        "--memory",
        "1M,2M,4M",
        "--read-ahead",
        "64K,128K",
    ];
    let once = document(&world, &more);
    assert_eq!(once["cells"].as_array().map(Vec::len), Some(2 * 3 * 2));
    assert_eq!(once, document(&world, &more));
    let csv = stdout(&world.output(&[&["compare", "workloads", "--csv"][..], &more].concat()));
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 1 + 2 * 3 * 2 * 3);
    let columns: BTreeSet<usize> = lines.iter().map(|line| line.split(',').count()).collect();
    assert_eq!(columns.len(), 1, "{csv}");
}

#[test]
fn without_workloads_it_compares_over_its_own() {
    let world = World::new();
    let machine = ["--device", "instant", "--memory", "1G", "--policy", "linux"];
    let output = world.output(&[&["compare", "--json"][..], &machine].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    let count = |name: &str| document[name].as_array().map_or(0, Vec::len);
    assert!(count("workloads") > 0, "{document}");
    assert_eq!(count("cells"), count("workloads"));
}

#[test]
fn workloads_held_out_have_a_summary_of_their_own() {
    let document = document(&world(), &["--held-out", "3"]);
    let parts = document["parts"].as_array().expect("parts");
    let held: Vec<&Value> = parts.iter().map(|part| &part["held_out"]).collect();
    assert_eq!(held, [false, true]);
    assert_eq!(parts[0]["cells"], 4);
    assert_eq!(parts[1]["cells"], 4);
    assert_ne!(parts[0]["workloads"], parts[1]["workloads"]);
    let text = stdout(&world().output(&["compare", "workloads", "--held-out", "3"]));
    assert!(text.contains("1 workload, not held out"), "{text}");
}

#[test]
fn cells_where_a_policy_loses_are_listed_worst_first() {
    let world = world();
    let text = stdout(&world.output(&["compare", "workloads", "--show", "none,linux"]));
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("scan "))
        .collect();
    assert!((2..=8).contains(&rows.len()), "{text}");
    assert!(
        text.contains("linux waits nowhere longer than linux"),
        "{text}"
    );
    let ratio = |row: &str| row.split_whitespace().nth(3)?.parse::<f64>().ok();
    let ratios: Vec<Option<f64>> = rows.iter().map(|row| ratio(row)).collect();
    assert!(ratios.is_sorted_by(|one, other| one >= other), "{text}");
}

fn page(world: &World) -> String {
    let output = world.output(&["compare", "workloads", "--html", "out.html"]);
    assert!(output.status.success(), "{}", stderr(&output));
    fs::read_to_string(world.path("out.html")).expect("a page")
}

#[test]
fn the_page_has_a_chart_for_each_workload_and_device_and_nothing_from_elsewhere() {
    let page = page(&world());
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert_eq!(page.matches("role=\"img\"").count(), 2 * 2);
    // Two bars, as linux is a line, for each of two sizes of memory.
    assert_eq!(page.matches("</title></rect>").count(), 2 * 2 * 2 * 2);
    assert!(page.contains("Reads &lt;all&gt; &amp; ends."));
    for foreign in [
        "<script", "http:", "https:", "url(", "@import", "<link", "<img",
    ] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let tags = [
        "table", "section", "article", "figure", "svg", "details", "ul", "tr", "td",
    ];
    for tag in tags {
        let opened =
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    let ids: Vec<&str> = page.split(" id=\"").skip(1).collect();
    let ids: Vec<&str> = ids
        .iter()
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert_eq!(
        ids.len(),
        ids.iter().collect::<BTreeSet<_>>().len(),
        "{ids:?}"
    );
    for link in page.split("href=\"#").skip(1) {
        let id = link.split('"').next().unwrap_or_default();
        assert!(ids.contains(&id), "{id}");
    }
}

#[test]
fn a_browser_lays_the_page_out_within_its_width() {
    let Some(browser) = browser::find() else {
        return;
    };
    let world = world();
    let page = page(&world);
    let script = "(() => { const root = document.documentElement; \
                  const charts = [...document.querySelectorAll('figure svg')] \
                  .filter(svg => svg.getBoundingClientRect().height > 50).length; \
                  return `wide ${root.scrollWidth <= root.clientWidth} charts ${charts}`; })()";
    for width in [500, 1200] {
        let found = browser::measured(browser, &world, &page, width, script);
        assert_eq!(found, "wide true charts 4", "{width}");
    }
}

#[test]
fn what_cannot_be_is_told_before_anything_runs() {
    let world = world();
    fs::create_dir(world.path("empty")).expect("a directory");
    fs::write(world.path("scan.toml"), "[[file]]\nname = 5\n").expect("a file");
    for (arguments, right) in [
        (&["compare", "gone.toml"][..], "cannot read gone.toml"),
        (&["compare", "empty"], "empty holds no scenario"),
        (&["compare", "scan.toml"], "scan.toml:2: file.name"),
        (
            &["compare", "workloads", "workloads/scan.toml"],
            "two workloads are called scan",
        ),
        (
            &["compare", "workloads", "--policy", "fast"],
            "there are: linux,",
        ),
        (
            &["compare", "workloads", "--device", "tape"],
            "jumps: no device is called `tape`",
        ),
        (
            &["compare", "--device", "tape"],
            "w01-sequential-4k: no device is called `tape`",
        ),
        (
            &["compare", "workloads", "--memory", "0K"],
            "memory of less than a page",
        ),
        (
            &["compare", "workloads", "--show", "whole-file"],
            "--show whole-file: it is none of",
        ),
        (
            &["compare", "workloads", "--show", "fast"],
            "no policy is called `fast`",
        ),
        (
            &["compare", "workloads", "--html", "/no/such/x.html"],
            "cannot write /no/such/x.html",
        ),
    ] {
        let output = world.output(arguments);
        assert_fails_in_one_line(&output, right);
        assert!(stderr(&output).contains(right), "{}", stderr(&output));
    }
    let output = world.output(&["compare", "workloads", "--held-out", "x"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn recorded_traces_are_whole_and_readahead_pays_on_them() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/traces/corpus");
    let arguments = [
        "compare", corpus, "--policy", "none", "--device", "nvme", "--json",
    ];
    let output = World::new().output(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    let workloads = document["workloads"].as_array().expect("workloads");
    assert_eq!(workloads.len(), 10);
    let none = &document["parts"][0]["policies"][1];
    assert_eq!(none["policy"], "none");
    assert!(none["to_linux"].as_f64().expect("a ratio") > 1.5, "{none}");
}
