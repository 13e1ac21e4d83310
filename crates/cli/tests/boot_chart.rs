// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread boot chart`: boots are traced on request, and drawn. `foreread boot show`: what is
//! known of units and files, with a trace and without.

mod common;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use common::played_boot::{BYTES, Boot, bed, make_earlier, read_all};
use common::service::until;
use common::watched::{make_cold, text};
use common::{World, assert_fails_in_one_line, browser, stderr, stdout};
use foreread_profile::{Phase, PhaseKind, ProfileBuilder, Program, Source, Uses, encode};
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

/// A replayed boot of a later version, which tells the order of units: `a` was started after `b`,
/// and the default target after `a`. A read of `a` waits for the replay, then for `b`.
fn ordered_trace(boot: &str) -> Value {
    let ms = |ms: u64| ms * 1_000_000;
    let mut trace = trace(boot);
    trace["mode"] = "replayed".into();
    trace["units"] = json!([
        { "name": "a<b>.service", "started_ns": ms(2000), "active_ns": ms(4000) },
        { "name": "b.service", "started_ns": ms(1000), "active_ns": null },
        { "name": "c.target", "started_ns": ms(4100), "active_ns": ms(4100) },
        { "name": "d.service", "started_ns": ms(8000), "active_ns": ms(8500) },
    ]);
    trace["default_target"] = "c.target".into();
    trace["orders"] = json!([
        { "unit": 0, "after": [1], "ended_ns": null },
        { "unit": 1, "after": [], "ended_ns": ms(1800) },
        { "unit": 2, "after": [3, 0, 1], "ended_ns": null },
        { "unit": 3, "after": [2], "ended_ns": null },
    ]);
    let read = |at: u64, end: u64, sector: u64, by: Value| {
        json!({ "at_ns": ms(at), "took_ns": ms(end - at), "disk": 0, "sector": sector,
                "bytes": 4096, "by": by, "process": "p" })
    };
    trace["reads"] = json!([
        read(2000, 2100, 8000, json!("replay")),
        read(2000, 2150, 16000, json!({ "unit": 1 })),
        read(2010, 2160, 24000, json!({ "unit": 0 })),
    ]);
    trace
}

#[test]
fn the_document_says_what_waited_for_what() {
    let world = World::new();
    keep_trace(&world, "0a", &trace("0a"));
    keep_trace(&world, "1b", &ordered_trace("1b"));
    let output = world.output(&["boot", "chart", "--json", "0a", "1b"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let chart: Value = serde_json::from_str(&stdout(&output)).expect("a document");
    let of = |boot: usize, name: &str| {
        let units = chart["boots"][boot]["units"].as_array().expect("a list");
        let unit = units.iter().find(|unit| unit["unit"] == name);
        unit.expect("the unit").clone()
    };
    // An earlier version doesn't know.
    assert_eq!(chart["boots"][0]["critical_chain"], Value::Null);
    assert_eq!(chart["boots"][0]["default_target"], Value::Null);
    assert_eq!(of(0, "a<b>.service")["started_after"], Value::Null);
    assert_eq!(of(0, "a<b>.service")["served_ns"], 8_000_000);
    let boot = &chart["boots"][1];
    assert_eq!(boot["default_target"], "c.target");
    assert_eq!(
        boot["critical_chain"],
        json!(["b.service", "a<b>.service", "c.target"])
    );
    let a = of(1, "a<b>.service");
    assert_eq!(
        a["started_after"],
        json!({ "unit": "b.service", "gap_ns": 200_000_000 })
    );
    let times = [
        "waited_ns",
        "served_ns",
        "behind_replay_ns",
        "behind_units_ns",
        "behind_other_ns",
    ];
    assert_eq!(
        times.map(|name| a[name].as_u64()),
        [150, 10, 90, 50, 0].map(|ms| Some(ms * 1_000_000)),
        "{a}"
    );
    assert_eq!(
        a["behind"],
        json!([{ "unit": "b.service", "behind_ns": 50_000_000 }])
    );
    // It has ended without being active.
    assert_eq!(of(1, "b.service")["done_ns"], 1_800_000_000);
    assert_eq!(of(1, "b.service")["active_ns"], Value::Null);
    // The target was there before it.
    assert_eq!(of(1, "d.service")["started_after"]["unit"], "c.target");
}

#[test]
fn drawings_show_what_waited_for_what() {
    let world = World::new();
    keep_trace(&world, "0a", &trace("0a"));
    keep_trace(&world, "1b", &ordered_trace("1b"));
    let chart = |words: &[&str]| {
        let output = world.output(&[&["boot", "chart"], words].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let drawing = chart(&["1b"]);
    // One line in the legend, one from b to a and on to the target.
    assert_eq!(drawing.matches("class=\"chain line-violet\"").count(), 2);
    for name in ["b.service", "a&lt;b&gt;.service", "c.target"] {
        assert!(drawing.contains(&format!(">{name}</text>")), "{drawing}");
    }
    assert_eq!(drawing.matches("class=\"unit fill-violet\"").count(), 3);
    assert!(
        drawing.contains("started 200 ms after b.service, waited for 150 ms in 1 read, 90 ms of"),
        "{drawing}"
    );
    let without = chart(&["0a"]);
    assert!(!without.contains("line-violet"), "{without}");
    let page = page_of_two(&world);
    for words in [
        "<th>Waited for disk</th><th>Of that behind the replay</th>",
        "<th>Started after</th>",
        "<td>a&lt;b&gt;.service</td><td>150 ms</td><td>90 ms</td><td>50 ms</td>",
        "<td class=\"text\">b.service</td>",
        "What the default target waited for: replayed boot",
        "<tr><td>c.target</td><td>100 ms</td><td>4.10 s</td>",
        "This trace doesn't tell what units were started after",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
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
    // Each is ordered after the one that was active when it was started.
    trace["default_target"] = trace["units"][59]["name"].clone();
    let orders = (5..60).map(|unit| json!({ "unit": unit, "after": [unit - 5], "ended_ns": null }));
    trace["orders"] = orders.collect();
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
        const chains = svg.querySelectorAll('path.chain').length; \
        const tables = document.querySelectorAll('table').length; \
        const apart = boxes.every((a, i) => boxes.slice(i + 1).every(b => !meet(a, b))); \
        const least = Math.min(...boxes.map(box => box.height)); \
        return `wide ${root.scrollWidth <= root.clientWidth} names ${boxes.length >= 120} \
            inside ${inside} apart ${apart} readable ${least >= 9} \
            chains ${chains} tables ${tables}`; })()";
    for width in [400, 1600] {
        let found = browser::measured(browser, &world, &page, width, script);
        // One chain in the legend, and one in each boot.
        let right = "wide true names true inside true apart true readable true chains 3 tables 4";
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
    let mut out_of_order = ordered_trace("0a");
    out_of_order["orders"][0]["after"] = json!([4]);
    for (damaged, why) in [
        (json!("x"), "no trace of a boot"),
        (
            json!({ "schema": "foreread.boot.trace/1" }),
            "no trace of a boot",
        ),
        (wrong, "a disk that is not in it"),
        (out_of_order, "the order of a unit that is not in it"),
    ] {
        keep_trace(&world, "0a", &damaged);
        let output = chart(&["0a"]);
        assert_fails_in_one_line(&output, why);
        assert!(stderr(&output).contains(why), "{why}: {}", stderr(&output));
    }
}

/// A profile of a boot: `a` and `b` read, `b` first, and a directory and more files than are
/// listed.
fn keep_profile(world: &World) {
    let mut builder = ProfileBuilder::new(Program::default(), Source::default());
    let ms = |ms: u64| ms * 1_000_000;
    let [b, a] = ["/system.slice/b.service", "/system.slice/a<b>.service"]
        .map(|path| builder.unit(path.as_bytes()));
    for (kind, start_ns) in [(PhaseKind::Sysinit, 0), (PhaseKind::Target, ms(1000))] {
        builder.phase(Phase { kind, start_ns });
    }
    let libc = builder.node(b"/lib/libc.so").expect("a path");
    builder.used_by(libc, Uses::OPENED, ms(5), b);
    builder.used_by(libc, Uses::MAPPED, ms(6), b);
    builder.pages_by(libc, 0, 10, ms(6), b);
    builder.pages_by(libc, 20, 4, ms(3000), a);
    let program = builder.node(b"/usr/bin/a").expect("a path");
    builder.used_by(program, Uses::EXECUTED, ms(2000), a);
    builder.pages_by(program, 0, 2, ms(2000), a);
    let missing = builder.node(b"/etc/a.conf").expect("a path");
    builder.used_by(missing, Uses::LOOKED_UP, ms(2500), a);
    for number in 0..120 {
        let path = format!("/var/lib/b/{number:03}");
        let id = builder.node(path.as_bytes()).expect("a path");
        builder.used_by(id, Uses::READ, ms(4000 + number), b);
        builder.pages_by(id, 0, 1, ms(4000 + number), b);
    }
    let directory = world.state().join("boot");
    fs::create_dir_all(&directory).expect("a directory");
    fs::write(directory.join("boot.frp"), encode(&builder.finish())).expect("a profile");
}

#[test]
fn units_and_files_are_shown_with_what_is_known_of_them() {
    let world = World::new();
    keep_profile(&world);
    let show = |words: &[&str]| {
        let output = world.output(&[&["boot", "show"], words].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let document = |words: &[&str]| -> Value {
        serde_json::from_str(&show(&[&["--json"], words].concat())).expect("a document")
    };
    // Without a trace nobody knows how long a unit waited.
    let without = show(&[]);
    assert!(without.contains("chart --next"), "{without}");
    assert!(!without.contains("Behind replay"), "{without}");
    let shown = document(&[]);
    assert_eq!(shown["trace"], Value::Null);
    assert_eq!(shown["units"][0]["waited_ns"], Value::Null);

    let of_unit = document(&["--unit", "a<b>"]);
    let files = of_unit["files"].as_array().expect("a list");
    assert_eq!(files.len(), 2, "{of_unit}");
    let of_libc = json!({
        "path": "/lib/libc.so", "unit": "/system.slice/a<b>.service", "need_ns": 3_000_000_000_u64,
        "phase": "target", "pages": 4, "first_unit": "/system.slice/b.service",
        "first_need_ns": 5_000_000, "uses": ["mapped"], "weight": 255, "recordings": "all",
    });
    assert_eq!(files[1], of_libc);
    assert_eq!(files[0]["uses"], json!(["executed"]));
    let paths: Vec<_> = of_unit["paths"]
        .as_array()
        .expect("a list")
        .iter()
        .collect();
    assert!(
        paths.iter().any(|path| path["path"] == "/etc/a.conf"
            && path["uses"] == json!(["looked-up"])
            && path["phase"] == "target"),
        "{of_unit}"
    );
    let text = show(&["--unit", "a<b>"]);
    for words in [
        "/system.slice/a<b>.service was the first to need 2 files (24 KiB)",
        "/system.slice/b.service at 5 ms",
        "executed",
        "read no page",
        "chart --next",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }

    let files = show(&["--files"]);
    assert!(files.contains("22 more files with 88 KiB"), "{files}");
    let first = files.find("/lib/libc.so").expect("the first file");
    assert!(
        files.find("/usr/bin/a").is_some_and(|next| first < next),
        "{files}"
    );
    assert!(!files.contains("/var/lib/b/119"), "{files}");
    let files = document(&["--files"]);
    assert_eq!(files["files"].as_array().map(Vec::len), Some(122));
    // Each file is there once, with the pages of all units.
    assert_eq!(files["files"][0]["pages"], 14);
    let both = world.output(&["boot", "show", "--files", "--unit", "b"]);
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn with_a_trace_units_are_shown_with_their_waits() {
    let world = World::new();
    keep_profile(&world);
    let path = keep_trace(&world, "1b", &ordered_trace("1b"));
    let output = world.output(&["boot", "show", "--json"]);
    let shown: Value = serde_json::from_str(&stdout(&output)).expect("a document");
    assert_eq!(shown["trace"]["boot"], "1b");
    assert_eq!(shown["trace"]["mode"], "replayed");
    let units = shown["units"].as_array().expect("a list");
    let of = |name: &str| {
        let unit = units.iter().find(|unit| unit["unit"] == name);
        unit.expect("the unit")
    };
    let a = of("/system.slice/a<b>.service");
    assert_eq!(a["waited_ns"], 150_000_000);
    assert_eq!(a["behind_replay_ns"], 90_000_000);
    assert_eq!(of("/system.slice/b.service")["waited_ns"], 150_000_000);
    let text = stdout(&world.output(&["boot", "show"]));
    assert!(text.contains("Behind replay"), "{text}");
    assert!(text.contains("replayed boot, Linux 6.1"), "{text}");
    assert!(!text.contains("--next"), "{text}");
    let text = stdout(&world.output(&["boot", "show", "--unit", "a<b>"]));
    let words = "it waited 150 ms for disks, about 90 ms of that behind the replay";
    assert!(text.contains(words), "{text}");

    // A damaged trace is told of, and does no harm.
    fs::write(path, "{").expect("a file");
    let output = world.output(&["boot", "show"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("it is no trace of a boot"),
        "{}",
        stderr(&output)
    );
    assert!(
        stdout(&output).contains("can't be read"),
        "{}",
        stdout(&output)
    );
}
