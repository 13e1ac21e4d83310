// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread sim`: tables, documents, explanations, pictures, and what it refuses.

mod common;

use std::fs;

use common::{World, assert_fails_in_one_line, can_record, schemas, stderr, stdout};
use foreread_core::policy::{Access, Limits, Memory, Near, Policy, State};
use serde_json::Value;

const SCENARIO: &str = r#"
[machine]
memory = "2M"
[readahead]
size = ["64K", "128K"]
policy = ["linux", "none"]
[[file]]
name = "data"
size = "8M"
[[program]]
name = "reader"
file = "data"
request = "16K"
cpu_per_page = "1us"
[[program]]
name = "jumper"
file = "data"
pattern = "random"
requests = 100
[[expect]]
read_ahead = "128K"
policy = "linux"
mb_per_s = 1
at_least = true
"#;

fn world() -> World {
    let world = World::new();
    fs::write(world.path("x.toml"), SCENARIO).expect("a scenario");
    world
}

fn document(world: &World, more: &[&str]) -> Value {
    let arguments = [&["sim", "x.toml", "--json"], more].concat();
    let output = world.output(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("one document")
}

fn number(value: &Value, name: &str) -> u64 {
    value[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} in {value:#}"))
}

#[test]
fn the_accounts_of_the_document_balance_in_every_part() {
    let document = document(&world(), &["--each-stream"]);
    assert_eq!(document["schema"], "foreread.sim/1");
    let runs = document["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 4);
    for run in runs {
        let mut parts = vec![&run["total"]];
        for kind in ["programs", "files", "streams"] {
            let list = run[kind].as_array().expect(kind);
            parts.extend(list.iter().map(|part| &part["total"]));
        }
        assert_eq!(parts.len(), 1 + 2 + 1 + 2);
        for part in parts {
            let places = [
                "used_on_time",
                "used_late",
                "wasted",
                "resident_unused",
                "in_flight",
            ];
            let sum: u64 = places
                .iter()
                .map(|p| number(part, &format!("{p}_pages")))
                .sum();
            assert_eq!(number(part, "fetched_pages"), sum, "{part:#}");
        }
    }
}

#[test]
fn every_combination_comes_out_the_same_each_time() {
    let world = world();
    let more = [
        "--device",
        "hdd,cloud",
        "--read-ahead",
        "64K,256K",
        "--memory",
        "1M,4M",
    ];
    let document_one = document(&world, &more);
    assert_eq!(document_one["runs"].as_array().map(Vec::len), Some(16));
    assert_eq!(document_one, document(&world, &more));
}

#[test]
fn csv_has_a_line_for_each_run() {
    let output = world().output(&["sim", "x.toml", "--csv"]);
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5);
    let columns = |line: &str| line.split(',').count();
    assert!(
        lines.iter().all(|line| columns(line) == columns(lines[0])),
        "{text}"
    );
}

#[test]
fn csv_and_json_say_the_same_of_a_device_with_any_name() {
    const NAME: &str = "a, \"b\"\r\n";
    let world = World::new();
    let scenario = "[machine]\nmemory = \"2M\"\n[device]\npreset = \"usb\"\n\
        name = \"a, \\\"b\\\"\\r\\n\"\n[queue]\nplug = \"device\"\nunplug = [\"waiter\", \"always\"]\n\
        [readahead]\npolicy = \"linux\"\n[[file]]\nname = \"data\"\nsize = \"1M\"\n\
        [[program]]\nname = \"reader\"\nfile = \"data\"\n";
    fs::write(world.path("x.toml"), scenario).expect("a scenario");
    let document = document(&world, &[]);
    let text = stdout(&world.output(&["sim", "x.toml", "--csv"]));
    let (_, rows) = text.split_once('\n').expect("a header");
    let start = format!("linux,\"{}\",", NAME.replace('"', "\"\""));
    let rows: Vec<&str> = rows
        .split_terminator(&start)
        .filter(|row| !row.is_empty())
        .collect();
    let runs = document["runs"].as_array().expect("runs");
    assert_eq!((rows.len(), runs.len()), (2, 2), "{text}");
    for (row, run) in rows.into_iter().zip(runs) {
        let cells: Vec<&str> = row.trim_end().split(',').collect();
        assert_eq!(cells[2], run["unplug"].as_str().expect("a word"), "{row}");
        assert_eq!(cells[5], run["bytes_per_s"].to_string(), "{row}");
    }
}

#[test]
fn an_access_is_explained() {
    let world = world();
    let how = [
        "sim",
        "x.toml",
        "--policy",
        "linux",
        "--read-ahead",
        "64K",
        "--access",
        "3",
    ];
    let text = stdout(&world.output(&how));
    assert!(text.contains("access 3: 16 KiB at page"), "{text}");
    assert!(text.contains("a stream starts here"), "{text}");
    let output = world.output(&["sim", "x.toml", "--access", "99999999"]);
    assert_fails_in_one_line(&output, "an access that there is none of");
    assert!(
        stderr(&output).contains("numbered from 1 to"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_oracle_is_a_policy_by_name_but_decides_at_no_access() {
    let world = world();
    let document = document(&world, &["--policy", "linux,oracle"]);
    let runs = document["runs"].as_array().expect("runs");
    let stalls = |name: &str| -> Vec<u64> {
        let of = runs.iter().filter(|run| run["policy"] == name);
        of.map(|run| number(&run["total"], "stall_ns")).collect()
    };
    let (linux, oracle) = (stalls("linux"), stalls("oracle"));
    assert_eq!((linux.len(), oracle.len()), (2, 2));
    assert!(
        linux
            .iter()
            .zip(&oracle)
            .all(|(linux, oracle)| oracle < linux)
    );
    for option in [["--access", "1"], ["--svg", "x.svg"]] {
        let arguments = [&["sim", "x.toml", "--policy", "oracle"][..], &option].concat();
        assert_fails_in_one_line(&world.output(&arguments), "the oracle decides ahead");
    }
}

#[test]
fn windows_are_drawn() {
    let world = world();
    let output = world.output(&["sim", "x.toml", "--svg", "out.svg"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let svg = fs::read_to_string(world.path("out.svg")).expect("a picture");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for run in ["linux on", "none on"] {
        assert_eq!(svg.matches(run).count(), 2, "{run}");
    }
    for part in [
        "used on time",
        "used late",
        "wasted",
        "synchronous",
        "asynchronous",
    ] {
        assert!(svg.contains(part), "{part}");
    }
    assert!(svg.matches("<path").count() > 100);
}

#[test]
fn a_row_that_is_not_reached_is_a_negative_answer() {
    let world = world();
    let output = world.output(&["sim", "x.toml", "--check"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let impossible = SCENARIO.replace("mb_per_s = 1", "mb_per_s = 1e9");
    fs::write(world.path("y.toml"), impossible).expect("a scenario");
    let output = world.output(&["sim", "y.toml", "--check"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("0 of 1 rows reached"));
}

#[test]
fn parameters_are_fitted() {
    let world = world();
    let text = SCENARIO.replace("mb_per_s = 1\n", "mb_per_s = 30\nfit = true\n")
        + "[fit]\nparameters = [\"bandwidth_bytes_per_s\"]\n";
    fs::write(world.path("y.toml"), text).expect("a scenario");
    let output = world.output(&["sim", "y.toml", "--fit"]);
    assert!(
        stdout(&output).starts_with("bandwidth_bytes_per_s = "),
        "{}",
        stderr(&output)
    );
    assert_fails_in_one_line(&world.output(&["sim", "x.toml", "--fit"]), "no [fit]");
}

#[test]
fn what_cannot_be_is_told_before_anything_runs() {
    let world = world();
    for (arguments, right) in [
        (&["sim", "gone.toml"][..], "cannot read gone.toml"),
        (&["sim", "x.toml", "--policy", "fast"], "there are: linux,"),
        (&["sim", "x.toml", "--device", "floppy"], "there are: hdd,"),
        (
            &["sim", "x.toml", "--memory", "0K"],
            "memory of less than a page",
        ),
        (
            &["sim", "x.toml", "--svg", "/no/such/directory/x.svg"],
            "/no/such/directory/x.svg",
        ),
    ] {
        let output = world.output(arguments);
        assert_fails_in_one_line(&output, right);
        assert!(stderr(&output).contains(right), "{}", stderr(&output));
    }
    for bad in [
        "x = [",
        "[[file]]\nname = \"a\u{1b}[2J\"\nsize = 5\n",
        "[machine]\ncpus = -1\n",
    ] {
        fs::write(world.path("bad.toml"), bad).expect("a file");
        let output = world.output(&["sim", "bad.toml"]);
        assert_fails_in_one_line(&output, bad);
        assert!(stderr(&output).contains("bad.toml:"), "{}", stderr(&output));
    }
    let output = world.output(&["sim", "x.toml", "--read-ahead", "128"]);
    assert!(stderr(&output).contains("128 what?"), "{}", stderr(&output));
}

const TRACE: &str = "fio version 3 iolog\n0 /a add\n0 /a open\n100 /a read 0 65536\n\
                     5100 /a read 65536 65536\n5200 /b add\n5200 /b open\n6100 /b read 8192 4096\n";

#[test]
fn a_trace_is_simulated_in_place_of_a_scenario() {
    let world = World::new();
    fs::write(world.path("x.iolog"), TRACE).expect("a trace");
    let arguments = ["sim", "x.iolog", "--policy", "linux,none", "--json"];
    let output = world.output(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    let runs = document["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2);
    for run in runs {
        let files = run["files"].as_array().expect("files").iter();
        let names: Vec<_> = files.map(|file| &file["name"]).collect();
        assert_eq!(names, ["/a", "/b"]);
        assert_eq!(number(&run["total"], "distinct_pages"), 33);
        let thought_ns = number(run, "elapsed_ns") - number(&run["total"], "stall_ns");
        assert_eq!(thought_ns, 6_100_000, "from its first opening on");
    }
    // The same through the own format, drawn, and among workloads.
    let convert = world.output(&["trace", "convert", "x.iolog", "x.frt"]);
    assert!(convert.status.success(), "{}", stderr(&convert));
    let own = world.output(&["sim", "x.frt", "--svg", "x.svg", "--csv"]);
    assert!(own.status.success(), "{}", stderr(&own));
    let iolog = world.output(&["sim", "x.iolog", "--csv"]);
    assert_eq!(stdout(&own), stdout(&iolog));
    let compare = world.output(&["compare", ".", "--policy", "none", "--json"]);
    assert!(compare.status.success(), "{}", stderr(&compare));
    let document: Value = serde_json::from_slice(&compare.stdout).expect("one document");
    assert_eq!(document["workloads"][0]["name"], "x");
}

#[test]
fn of_a_bad_trace_what_is_whole_is_simulated() {
    let world = World::new();
    let bad = format!("{TRACE}7000 /b read x 1\n");
    fs::write(world.path("x.iolog"), bad).expect("a trace");
    let output = world.output(&["sim", "x.iolog"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("line 9"), "{}", stderr(&output));
    assert!(stdout(&output).contains("linux"), "{}", stdout(&output));
    fs::write(world.path("empty.iolog"), "fio version 3 iolog\n").expect("a trace");
    fs::write(world.path("other.bin"), "neither this\nnor that\n").expect("a file");
    fs::create_dir(world.path("folder.frt")).expect("a folder");
    let refused: [(&[&str], &str); 4] = [
        (&["sim", "empty.iolog"], "nothing in this trace"),
        (&["sim", "other.bin"], "other.bin"),
        (&["sim", "folder.frt"], "it is a directory"),
        (
            &["sim", "x.iolog", "--from-format", "frt"],
            "not a Foreread trace",
        ),
    ];
    for (arguments, what) in refused {
        assert_fails_in_one_line(&world.output(arguments), what);
    }
}

#[test]
fn what_record_traces_can_be_simulated() {
    if !can_record() {
        return;
    }
    let world = World::new();
    fs::write(world.path("data"), vec![b'x'; 300_001]).expect("a file");
    let data = world.path("data");
    let data = data.to_str().expect("text");
    let recorded = ["record", "--trace", "x.frt", "--", "cat", data];
    let output = world.output(&recorded);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("accesses"), "{}", stderr(&output));
    let recorded = ["record", "--trace", "x.frt", "--json", "--", "cat", data];
    let output = world.output(&recorded);
    assert!(output.status.success(), "{}", stderr(&output));
    let document: Value = serde_json::from_str(&stderr(&output)).expect("one document");
    assert_eq!(document["schema"], "foreread.record-trace/1");
    let output = world.output(&["sim", "x.frt", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    let files = document["runs"][0]["files"].as_array().expect("files");
    let file = files.iter().find(|file| file["name"] == data);
    let total = &file.expect("what was read")["total"];
    assert_eq!(number(total, "distinct_pages"), 74);
    assert_fails_in_one_line(
        &world.output(&[
            "record",
            "--trace",
            "y.frt",
            "--recorder",
            "fanotify",
            "--",
            "true",
        ]),
        "only the BPF recorder",
    );
}

/// A miss at page 0 and the decision of `linux`, as the tracepoint of the kernel module writes it:
/// the event `event` of the streams `streams`, or of none. `after_size` is the size of the window
/// that the state has afterwards, where it is not the core's.
fn module_line(streams: u64, event: u64, after_size: Option<u32>) -> String {
    let limits = Limits::new(3568, 32);
    let (before, near) = (State::open(&limits), Near::default());
    let access = Access::read_miss(0, 1);
    let mut after = before;
    let memory = Memory {
        streams: None,
        device: None,
        budget: None,
    };
    let made = Policy::Linux.decide_with(&mut after, &access, &near, &limits, memory);
    after.size = after_size.unwrap_or(after.size);
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    format!(
        "  cat-1 [000] ..... 1.0: decision: device=8:16 inode=12 policy=0 streams={streams} \
         event={event} before={} access={} near={} limits={} made={} after={} costs=- budget=-\n",
        hex(before.bytes()),
        hex(access.bytes()),
        hex(near.bytes()),
        hex(limits.bytes()),
        hex(made.bytes()),
        hex(after.bytes())
    )
}

#[test]
fn decisions_of_the_kernel_module_are_made_again() {
    let world = World::new();
    let good = module_line(0, 0, None);
    let replay = |text: &str, code: i32| {
        fs::write(world.path("trace.txt"), text).expect("records");
        let done = world.output(&["sim", "--replay", "trace.txt"]);
        assert_eq!(done.status.code(), Some(code), "{}", stderr(&done));
        let json = world.output(&["sim", "--replay", "trace.txt", "--json"]);
        assert_eq!(json.status.code(), Some(code), "{}", stderr(&json));
        schemas::check(&json);
        let document: Value = serde_json::from_slice(&json.stdout).expect("JSON");
        (stdout(&done), stderr(&done), document)
    };
    let (said, _, document) = replay(&format!("# tracer: nop\n{good}{good}"), 0);
    assert_eq!(said, "linux: 2 decisions, all the same\n");
    assert_eq!(number(&document["policies"]["linux"], "equal"), 2);

    let other = module_line(0, 0, Some(7));
    let (said, _, document) = replay(&format!("{good}{other}"), 1);
    assert!(
        said.starts_with("linux: 2 decisions, 1 the same\n"),
        "{said}"
    );
    assert!(said.contains("line 2, linux at page 0"), "{said}");
    assert_eq!(number(&document, "equal"), 1);

    let (_, told, document) = replay(&format!("{good}{}", module_line(3, 2, None)), 64);
    assert!(told.contains("1 decision can't be made again"), "{told}");
    assert_eq!(number(&document, "not_replayed"), 1);
}

#[test]
fn records_that_are_none_are_refused_in_a_line() {
    let world = World::new();
    let cut = module_line(0, 0, None).replace("near=", "near=00");
    for (text, right) in [
        ("# tracer: nop\n", "has no decisions"),
        (cut.as_str(), "line 1 is no record of the module"),
        ("", "no calls of the policy"),
    ] {
        fs::write(world.path("trace.txt"), text).expect("a file");
        let output = world.output(&["sim", "--replay", "trace.txt"]);
        assert_fails_in_one_line(&output, right);
        assert!(stderr(&output).contains(right), "{}", stderr(&output));
    }
}
