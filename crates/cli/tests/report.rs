// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread report`: the page of a machine and of a program, as a document too; hostile names, a
//! fresh machine, a user without rights, and a browser that lays the page out.

mod common;

use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use common::{World, assert_fails_in_one_line, binary_for_all, browser, is_root, stderr, stdout};
use foreread_boot::{Boot, History, Measured as BootMeasured, Mode};
use foreread_device::{Measured, MeasuredBook, SweepPoint};
use foreread_linux_sizing::devices;
use foreread_profile::{Profile, ProfileBuilder, Program, Run, RunMode, Source};
use serde_json::{Value, json};

/// What a name of a file may be.
const HOSTILE: &str = "/srv/</title><script>alert(1)</script>\n\"&'\u{1b}[31m";

/// A program with a hostile command line that read hostile files: first recorded, then replayed.
fn profile() -> Profile {
    let program = Program {
        executable: HOSTILE.into(),
        arguments: vec![b"grep".to_vec(), HOSTILE.into()],
        directory: HOSTILE.into(),
        ..Program::default()
    };
    let mut builder = ProfileBuilder::new(program, Source::default());
    for number in 0..30u64 {
        let path = format!("{HOSTILE}{number}");
        let id = builder.node(path.as_bytes()).expect("a path");
        builder.pages(id, 0, number + 1, number * 10_000_000);
    }
    for number in 0..6 {
        let is_replayed = number > 0;
        builder.run(Run {
            started_unix_s: 1_790_000_000 + number,
            mode: match is_replayed {
                true => RunMode::Replayed,
                false => RunMode::Recorded,
            },
            wall_ns: if is_replayed {
                1_500_000_000
            } else {
                9_000_000_000
            },
            stall_ns: Some(700_000_000),
            cached_before_permille: Some(0),
            fetched_pages: if is_replayed { 400 } else { 0 },
            used_on_time_pages: is_replayed.then_some(350),
            used_late_pages: is_replayed.then_some(20),
            ..Run::default()
        });
    }
    builder.finish()
}

/// A machine with devices, of which one was measured, and with boots.
fn sysroot(world: &World) -> PathBuf {
    let top = world.path("machine");
    fs::create_dir(&top).expect("a directory");
    let tree = common::machine::everything(&top).expect("a machine");
    tree.mount(
        "0:60",
        "/mnt/<script>alert(2)</script>",
        "fuse.x",
        "<script>",
        "rw",
    )
    .expect("a mount");
    tree.setting("0:60", 128).expect("a setting");
    let machine = devices::read(&top);
    let disk = machine
        .devices
        .iter()
        .find(|device| device.identity.name == "sda");
    let points = (2..14).map(|power| {
        let rate = 2e6 * f64::from(1 << power.min(9));
        SweepPoint {
            read_ahead_kib: 1 << power,
            bytes_per_s: rate,
            bytes_per_s_low: rate * 0.97,
            bytes_per_s_high: rate * 1.02,
            passes: 5,
        }
    });
    let mut book = MeasuredBook::default();
    book.push(Measured {
        identity: disk.expect("a disk").identity.clone(),
        unix_s: 1_790_000_000,
        sweep: points.collect(),
        plateau_kib: 512,
        certain: true,
        request_cost_ns: 1e6,
        bandwidth_bytes_per_s: 1e8,
        latency_ns: None,
        speed_up: None,
    });
    let kept = world.state().join("devices");
    fs::create_dir(&kept).expect("a directory");
    fs::write(kept.join("measured.json"), book.to_json().expect("JSON")).expect("a file");
    let mut history = History::default();
    for number in 0..8u64 {
        let is_replayed = number % 2 == 1;
        history.begin(Boot {
            id: format!("boot-{number}"),
            started_unix_s: 1_790_000_000 + number * 86_400,
            kernel: "6.1".to_owned(),
            mode: if is_replayed {
                Mode::Replayed
            } else {
                Mode::Plain
            },
            untypical: None,
            packages: None,
            measured: Some(BootMeasured {
                target_ns: if is_replayed {
                    13_900_000_000
                } else {
                    26_100_000_000
                },
                stall_ns: Some(9_000_000_000),
                ..BootMeasured::default()
            }),
        });
    }
    let kept = top.join("var/lib/foreread/boot");
    fs::create_dir_all(&kept).expect("a directory");
    fs::write(kept.join("history.json"), history.to_json().expect("JSON")).expect("a file");
    top
}

/// A world with a bit of everything, and the arguments of its report.
fn everything() -> (World, Vec<String>) {
    let world = World::new();
    common::write(&world.state().join("grep-00000001.frp"), &profile());
    fs::write(world.state().join("broken.frp"), "junk").expect("a file");
    let top = sysroot(&world);
    let arguments = vec![
        "report".to_owned(),
        "--root".to_owned(),
        text(&top).to_owned(),
    ];
    (world, arguments)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Answers one query as a running `watch` does.
fn answer_once(world: &World) -> std::thread::JoinHandle<()> {
    let lines = [
        json!({"process": 7, "what": "begun", "top": HOSTILE, "order": "listed"}),
        json!({"process": 7, "what": "fetched", "files": 3, "pages": 40}),
        json!({"process": 7, "what": "ended", "why": "exited", "fetched_files": 30,
            "fetched_pages": 4100, "used_files": 28, "wasted_files": 2, "missed_files": 4}),
        json!({"process": 8, "what": "matched", "profile": "<script>.frp", "files": [],
            "odds_bits": 20, "processes": [8]}),
        json!({"process": 1, "what": "streams_unknown", "why": "<script>"}),
    ];
    let listener = UnixListener::bind(world.state().join("watch.sock")).expect("a socket");
    std::thread::spawn(move || {
        // It is asked whether anybody is there, and then what.
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            for line in &lines {
                let mut line = line.clone();
                line["schema"] = "foreread.watch.log/1".into();
                line["since_start_ns"] = 5.into();
                // Whoever only looks hangs up.
                let _ = writeln!(stream, "{line}");
            }
        }
    })
}

fn run(world: &World, arguments: &[String], more: &[&str]) -> std::process::Output {
    let arguments: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .chain(more.iter().copied())
        .collect();
    world.output(&arguments)
}

/// No script, nothing from elsewhere, and no name that ends a tag.
fn assert_harmless(page: &str) {
    assert!(
        page.starts_with("<!doctype html>") && page.ends_with("</html>\n"),
        "{page}"
    );
    for foreign in [
        "<script",
        "src=",
        "url(",
        "http://www.w3.org/1999",
        "@import",
        "\u{1b}",
    ] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let links = page.split("href=\"").skip(1);
    assert!(links.clone().all(|link| link.starts_with('#')));
    for link in links {
        let id = link[1..].split('"').next().expect("an end");
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
    assert!(page.contains("&lt;script&gt;"), "the names are there");
}

#[test]
fn a_machine_is_one_page_with_all_its_parts() {
    let (world, arguments) = everything();
    let watch = answer_once(&world);
    let output = run(&world, &arguments, &["--output", "machine.html"]);
    watch.join().expect("it answered");
    assert!(
        matches!(output.status.code(), Some(0 | 64)),
        "{}",
        stderr(&output)
    );
    assert!(output.stdout.is_empty());
    let page = fs::read_to_string(world.path("machine.html")).expect("a page");
    assert_harmless(&page);
    for part in [
        "30 files",
        "broken.frp can&#39;t be read",
        "Throughput of sda by readahead size",
        "A replay saves 12.2 s",
        "Time to the target, by boot",
        "The service runs",
        "ended: exited",
        "Time by run",
        "7.50 s",
    ] {
        let part = part.replace("&#39;", "'");
        assert!(page.contains(&part), "{part}");
    }
    assert_eq!(page.matches("<section id=").count(), 6);
    assert!(!page.contains("To begin with"));
}

#[test]
fn the_document_has_the_same_and_those_of_other_verbs() {
    let (world, arguments) = everything();
    let output = run(&world, &arguments, &["--json"]);
    assert!(
        matches!(output.status.code(), Some(0 | 64)),
        "{}",
        stderr(&output)
    );
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(document["schema"], "foreread.report/1");
    assert_eq!(document["about"], "machine");
    assert_eq!(document["service"]["running"], false);
    let profiles = &document["profiles"]["profiles"];
    assert_eq!(profiles[0]["name"], "broken.frp");
    assert!(profiles[0]["error"].is_string() && profiles[0]["profile"].is_null());
    assert_eq!(profiles[1]["profile"]["schema"], "foreread.show/1");
    assert_eq!(
        profiles[1]["profile"]["runs"].as_array().map(Vec::len),
        Some(6)
    );
    for (part, schema) in [
        ("devices", "foreread.advice/1"),
        ("boot", "foreread.boot.status/1"),
        ("doctor", "foreread.doctor/1"),
    ] {
        assert_eq!(document[part]["schema"], schema, "{part}");
    }
    assert!(document["applied"]["applied"].is_array(), "{document}");
    assert_eq!(document["measured"][0]["plateau_kib"], 512);
    assert_eq!(document["first_steps"], json!([]));
}

#[test]
fn a_fresh_machine_is_told_what_to_do_first() {
    let world = World::new();
    let top = world.path("empty");
    fs::create_dir(&top).expect("a directory");
    let output = world.output(&["report", "--root", text(&top)]);
    let page = stdout(&output);
    assert!(page.starts_with("<!doctype html>"), "{}", stderr(&output));
    for part in [
        "To begin with",
        "sudo foreread run -- COMMAND",
        "No profiles in",
        "No device with readahead of its own",
        "Not enabled",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let output = world.output(&["report", "--json", "--root", text(&top)]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(document["first_steps"].as_array().map(Vec::len), Some(4));
}

#[test]
fn a_program_is_a_page_by_file_stored_name_and_command_line() {
    let (world, _) = everything();
    let path = world.path("elsewhere.frp");
    common::write(&path, &profile());
    for named in [&["grep-00000001.frp"][..], &["elsewhere.frp"]] {
        let output = world.output(&[&["report"], named].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let page = stdout(&output);
        assert_harmless(&page);
        for part in [
            "Time by run",
            "Pages fetched ahead",
            "Data that was needed",
            "7.50 s",
            "and 5 more",
        ] {
            assert!(page.contains(part), "{part}");
        }
    }
    let output = world.output(&["report", "elsewhere.frp", "--json", "-o", "x.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document = fs::read_to_string(world.path("x.json")).expect("a file");
    let document: Value = serde_json::from_str(&document).expect("one document");
    assert_eq!(document["about"], "profile");
    assert_eq!(document["profile"]["schema"], "foreread.show/1");
    let output = world.output(&["report", "--", "true", "x"]);
    assert_fails_in_one_line(&output, "no such profile");
    assert!(stderr(&output).contains("no profile of this command line"));
}

#[test]
fn what_cannot_be_is_said_in_a_line() {
    let world = World::new();
    fs::write(world.path("junk"), "junk").expect("a file");
    for (arguments, right) in [
        (
            &["gone.frp"][..],
            "gone.frp: neither a file nor a stored profile",
        ),
        (&["junk"], "junk"),
        (&["--root", "gone"], "gone is not a directory"),
        (&["--", "no-such-command"], "command not found"),
    ] {
        let output = world.output(&[&["report"], arguments].concat());
        assert_fails_in_one_line(&output, &format!("{arguments:?}"));
        assert!(stderr(&output).contains(right), "{}", stderr(&output));
    }
    common::write(&world.path("x.frp"), &profile());
    let output = world.output(&["report", "x.frp", "--output", "/no/such/directory/x.html"]);
    assert_fails_in_one_line(&output, "no directory");
    assert!(stderr(&output).contains("cannot write /no/such/directory/x.html"));
    for both in [
        &["report", "x.frp", "--", "true"][..],
        &["report", "--oops"],
    ] {
        assert_eq!(world.output(both).status.code(), Some(2), "{both:?}");
    }
}

#[test]
fn without_rights_it_says_what_is_left_out() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let binary = binary_for_all(&world);
    let output = std::process::Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(binary)
        .arg("report")
        .current_dir(world.path(""))
        .env_remove("FOREREAD_STATE_DIR")
        .env_remove("XDG_STATE_HOME")
        .env_remove("HOME")
        .output()
        .expect("setpriv starts");
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("left out: profiles: no place for profiles"));
    let page = stdout(&output);
    assert!(
        page.contains("Left out: profiles") && page.contains("not root"),
        "{page}"
    );
}

#[test]
fn a_browser_lays_the_page_out_at_400_and_at_1600_px() {
    let Some(browser) = browser::find() else {
        return;
    };
    let (world, arguments) = everything();
    let machine = stdout(&run(&world, &arguments, &[]));
    let program = stdout(&world.output(&["report", "grep-00000001.frp"]));
    // The page isn't wider than the window; charts are there; no text of theirs is tiny.
    let script = "(() => { \
        const root = document.documentElement; \
        const charts = [...document.querySelectorAll('figure svg')]; \
        const tall = charts.filter(svg => svg.getBoundingClientRect().height > 90).length; \
        const sizes = charts.map(svg => 13 * svg.getBoundingClientRect().width / 360); \
        const columns = new Set([...document.querySelectorAll('.tiles li')] \
            .map(tile => tile.getBoundingClientRect().left)).size; \
        return `wide ${root.scrollWidth <= root.clientWidth} charts ${tall} of ${charts.length} \
            readable ${Math.min(...sizes) >= 9} columns ${columns}`; })()";
    for (page, charts, columns) in [(&machine, 3, [2, 6]), (&program, 3, [0, 0])] {
        for (width, columns) in [400, 1600].into_iter().zip(columns) {
            let found = browser::measured(browser, &world, page, width, script);
            let right =
                format!("wide true charts {charts} of {charts} readable true columns {columns}");
            assert_eq!(found, right, "{width}");
        }
    }
}
