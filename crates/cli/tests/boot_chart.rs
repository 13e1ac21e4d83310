// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread boot chart`: boots are traced on request, and drawn.

mod common;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use common::played_boot::{BYTES, Boot, bed, make_earlier, read_all};
use common::service::until;
use common::watched::{make_cold, text};
use common::{World, assert_fails_in_one_line, browser, stderr, stdout};
use foreread_sys::clock::since_kernel_start;
use foreread_testbed::race;
use serde_json::{Value, json};

/// A trace as `boot serve` keeps it.
fn keep_trace(world: &World, boot: &str, trace: &Value) -> PathBuf {
    let traces = world.state().join("boot/traces");
    fs::create_dir_all(&traces).expect("a directory");
    let path = traces.join(format!("{boot}.json"));
    fs::write(&path, trace.to_string()).expect("a file");
    path
}

fn trace(boot: &str) -> Value {
    json!({
        "schema": "foreread.boot.trace/1", "boot": boot, "stored_unix_s": 1, "kernel": "6.1",
        "mode": "plain", "traced_from_ns": 5, "reached_ns": 9_000_000_000_u64, "lost_reads": 0,
        "disks": [{ "name": "sda", "bytes": 1 << 30 }],
        "units": [{ "name": "a<b>.service", "started_ns": 1_000_000_000, "active_ns": null }],
        "reads": [
            { "at_ns": 2_000_000_000_u64, "took_ns": 8_000_000, "disk": 0, "sector": 2048,
              "bytes": 4096, "by": { "unit": 0 }, "process": "a" },
            { "at_ns": 1_000_000_000, "took_ns": 8_000_000, "disk": 0, "sector": 4096,
              "bytes": 65536, "by": "replay", "process": "foreread" },
        ],
    })
}

#[test]
fn boots_are_traced_when_that_is_asked_for_and_drawn() {
    // Times in a trace count from the kernel's start.
    if since_kernel_start() > Duration::from_secs(23 * 60 * 60) {
        println!("skipped: this machine is up for a day, and no trace has later times");
        return;
    }
    race(|| {
        let world = World::new();
        let Some((testbed, tree)) = bed(&world) else {
            return;
        };
        let early = world.output(&["boot", "chart", "--next"]);
        assert_fails_in_one_line(&early, "nothing is enabled");
        let wish = world.state().join("boot/trace-next");
        fs::create_dir_all(world.state().join("boot")).expect("a directory");
        let ask = || {
            let asked = world.output(&["boot", "chart", "--next"]);
            assert_eq!(asked.status.code(), Some(0), "{}", stderr(&asked));
            assert!(wish.exists());
        };
        ask();
        let boot = Boot::start(&world);
        make_cold(&testbed);
        read_all(&tree);
        let recorded = boot.end();
        let path = recorded["trace"].as_str().expect("a trace").to_owned();
        assert!(!wish.exists());
        // All boots here are one to the kernel.
        make_earlier(&world);
        let earlier = world.state().join("boot/traces/earlier.json");
        fs::rename(&path, &earlier).expect("it is there");

        ask();
        make_cold(&testbed);
        testbed.reset_counters();
        let boot = Boot::start(&world);
        until("the replay", || testbed.counters().bytes >= BYTES);
        let replayed = boot.end();
        assert_eq!(replayed["mode"], "replayed", "{replayed}");
        assert_eq!(replayed["trace"], path, "{replayed}");

        let output = world.output(&["boot", "chart", "--json", "-2", "-1"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let chart: Value = serde_json::from_str(&stdout(&output)).expect("a document");
        assert_eq!(chart["schema"], "foreread.boot.chart/1");
        let boots = chart["boots"].as_array().expect("boots");
        let modes: Vec<&str> = boots
            .iter()
            .filter_map(|boot| boot["mode"].as_str())
            .collect();
        assert_eq!(modes, ["recorded", "replayed"], "{chart}");
        let bytes = |boot: usize, by: &str| boots[boot][by]["bytes"].as_u64().expect("a number");
        assert!(bytes(0, "demand") >= BYTES, "{chart}");
        // `boot serve` may read its own program.
        assert!(bytes(0, "replay") < BYTES, "{chart}");
        assert!(bytes(1, "replay") >= BYTES, "{chart}");
        assert!(boots[0]["reached_ns"].as_u64() > boots[0]["traced_from_ns"].as_u64());
        assert!(boots[0]["busy_ns"].as_u64() > Some(0), "{chart}");

        // A boot that nobody asked about is not traced.
        make_earlier(&world);
        let silent = Boot::start(&world).end();
        assert_eq!(silent["trace"], Value::Null, "{silent}");
    });
}

#[test]
fn drawings_are_printed_or_written() {
    let world = World::new();
    keep_trace(&world, "0a", &trace("0a"));
    let printed = world.output(&["boot", "chart"]);
    let drawing = stdout(&printed);
    assert!(drawing.starts_with("<svg "), "{drawing}");
    assert!(drawing.contains("a&lt;b&gt;.service"), "{drawing}");
    let svg = world.path("boot.svg");
    let written = world.output(&["boot", "chart", "0", "--output", text(&svg)]);
    assert_eq!(written.status.code(), Some(0), "{}", stderr(&written));
    assert_eq!(fs::read_to_string(&svg).expect("a drawing"), drawing);
    keep_trace(&world, "1b", &trace("1b"));
    let page = page_of_two(&world);
    assert!(page.starts_with("<!doctype html>"), "{page}");
    assert_eq!(page.matches("plain boot, Linux 6.1").count(), 6, "{page}");
}

/// The page of the boots 0a and 1b.
fn page_of_two(world: &World) -> String {
    let html = world.path("boot.html");
    let written = world.output(&["boot", "chart", "0a", "1b", "--output", text(&html)]);
    assert_eq!(written.status.code(), Some(0), "{}", stderr(&written));
    fs::read_to_string(&html).expect("a page")
}

/// A trace with as many units, disks and long names as a desktop has.
fn large_trace(boot: &str) -> Value {
    let mut trace = trace(boot);
    let names = [
        "a.service",
        "systemd-tmpfiles-setup-dev-early.service",
        "dev-disk-by\\x2duuid-7d3c1f0e\\x2d2b7a\\x2d4c58.device",
    ];
    let units = (0..60_u64).map(|unit| {
        let name = format!("{unit}-{}", names[unit as usize % names.len()]);
        let started_ns = unit * 100_000_000;
        json!({ "name": name, "started_ns": started_ns, "active_ns": started_ns + 500_000_000 })
    });
    trace["units"] = units.collect();
    trace["disks"] = json!([
        { "name": "nvme0n1", "bytes": 1_u64 << 40 },
        { "name": "sda", "bytes": 1_u64 << 30 },
    ]);
    let reads = (0..2000_u64).map(|read| {
        let by = match read % 3 {
            0 => json!("replay"),
            _ => json!({ "unit": read % 60 }),
        };
        json!({ "at_ns": read * 4_000_000, "took_ns": 5_000_000, "disk": read % 2,
                "sector": read * 977 % 2_000_000, "bytes": 65_536, "by": by, "process": "a" })
    });
    trace["reads"] = reads.collect();
    trace
}

#[test]
fn a_browser_lays_the_page_out_at_400_and_at_1600_px() {
    let Some(browser) = browser::find() else {
        return;
    };
    let world = World::new();
    keep_trace(&world, "0a", &large_trace("0a"));
    keep_trace(&world, "1b", &large_trace("1b"));
    let page = page_of_two(&world);
    // The page isn't wider than the window: a chart that is scrolls by itself. Each name lies in
    // the drawing, none on another, and none is tiny.
    let script = "(() => { \
        const root = document.documentElement; \
        const svg = document.querySelector('svg'); \
        const frame = svg.getBoundingClientRect(); \
        const boxes = [...svg.querySelectorAll('text')].map(text => text.getBoundingClientRect()); \
        const inside = boxes.every(box => box.left >= frame.left && box.right <= frame.right \
            && box.top >= frame.top && box.bottom <= frame.bottom); \
        const meet = (a, b) => a.left < b.right && b.left < a.right \
            && a.top + 3 < b.bottom && b.top + 3 < a.bottom; \
        const apart = boxes.every((a, i) => boxes.slice(i + 1).every(b => !meet(a, b))); \
        const least = Math.min(...boxes.map(box => box.height)); \
        return `wide ${root.scrollWidth <= root.clientWidth} names ${boxes.length >= 120} \
            inside ${inside} apart ${apart} readable ${least >= 9}`; })()";
    for width in [400, 1600] {
        let found = browser::measured(browser, &world, &page, width, script);
        let right = "wide true names true inside true apart true readable true";
        assert_eq!(found, right, "{width}");
    }
}

#[test]
fn what_cannot_be_drawn_is_said_in_a_line() {
    let world = World::new();
    let chart = |words: &[&str]| world.output(&[&["boot", "chart"], words].concat());
    assert_fails_in_one_line(&chart(&[]), "nothing was traced");
    assert!(stderr(&chart(&[])).contains("--next"));
    keep_trace(&world, "0a", &trace("0a"));
    keep_trace(&world, "0b", &trace("0b"));
    keep_trace(&world, "0b1", &trace("0b1"));
    // A whole name, though another one begins with it.
    let output = chart(&["0b"]);
    assert!(!stderr(&output).contains("several"), "{}", stderr(&output));
    for (words, why) in [
        (&["0"][..], "several traced boots begin with 0"),
        (&["7"], "no boot 7 was traced"),
        (&["-4"], "3 boots are traced"),
        (&["-0"], "3 boots are traced"),
        (
            &["0a", "--output", "/no/such/directory/x.svg"],
            "cannot write",
        ),
        (&["0a", "--output", "/dev/full"], "No space left"),
    ] {
        let output = chart(words);
        assert_fails_in_one_line(&output, why);
        assert!(stderr(&output).contains(why), "{why}: {}", stderr(&output));
    }
    assert_eq!(chart(&["0a", "0b", "0a"]).status.code(), Some(2));
    assert_eq!(chart(&["--next", "0a"]).status.code(), Some(2));
    let mut wrong = trace("0a");
    wrong["reads"][0]["disk"] = 9.into();
    for (damaged, why) in [
        (json!("x"), "no trace of a boot"),
        (
            json!({ "schema": "foreread.boot.trace/1" }),
            "no trace of a boot",
        ),
        (wrong, "a disk that is not in it"),
    ] {
        keep_trace(&world, "0a", &damaged);
        let output = chart(&["0a"]);
        assert_fails_in_one_line(&output, why);
        assert!(stderr(&output).contains(why), "{why}: {}", stderr(&output));
    }
}
