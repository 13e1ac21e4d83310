// SPDX-License-Identifier: MIT OR Apache-2.0
//! A testbed whose process is killed, at many points of its life, leaves nothing behind.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use foreread_model::DiskParameters;
use foreread_testbed::{FileSystem, Testbed, TestbedConfig, workload};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const CHILD: &str = "--as-child";

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(place) = arguments.iter().position(|argument| argument == CHILD) {
        return live_until_killed(Path::new(&arguments[place + 1]));
    }
    if let Err(lacking) = Testbed::available() {
        println!("skipped: {lacking}");
        return Ok(());
    }
    let scratch = tempfile::tempdir()?;
    // While it starts, mounts, fills and reads: wherever these delays fall on this machine.
    for delay_ms in [0, 1, 2, 4, 8, 16, 32, 64, 128, 256] {
        let mut child = start_child(scratch.path())?;
        sleep(Duration::from_millis(delay_ms));
        child.kill()?;
        child.wait()?;
        nothing_remains_after_the_next_start(scratch.path())?;
    }
    let mut child = start_child(scratch.path())?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    let orphan: i32 = line.trim().parse()?;
    assert!(
        Path::new(&format!("/proc/{orphan}")).exists(),
        "the reader has not started"
    );
    assert!(
        !bound_files(scratch.path()).is_empty(),
        "no loop device while it runs"
    );
    // Another process's start must leave a living testbed alone.
    drop(Testbed::start(config(scratch.path())?)?);
    assert!(
        !bound_files(scratch.path()).is_empty(),
        "a living testbed was cleaned up"
    );
    child.kill()?;
    child.wait()?;
    nothing_remains_after_the_next_start(scratch.path())?;
    assert!(!is_running(orphan), "a process of the killed testbed lives");
    println!("a killed testbed leaves nothing: ok");
    Ok(())
}

fn config(runtime_directory: &Path) -> Result<TestbedConfig, Box<dyn std::error::Error>> {
    let parameters = DiskParameters::preset("nvme").ok_or("no such disk")?;
    let runtime_directory = Some(runtime_directory.to_owned());
    Ok(TestbedConfig {
        runtime_directory,
        ..TestbedConfig::new(parameters, 64 << 20)
    })
}

fn start_child(runtime_directory: &Path) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg(CHILD)
        .arg(runtime_directory)
        .stdout(Stdio::piped())
        .spawn()
}

/// Starts a testbed, fills it, has a grandchild read from it and waits for its end.
fn live_until_killed(runtime_directory: &Path) -> Outcome {
    let testbed = Testbed::start(config(runtime_directory)?)?;
    testbed.make_file_system(FileSystem::Ext4, &[])?;
    let tree = testbed.mount(FileSystem::Ext4, "")?.join("tree");
    workload::small_files(&tree, 500, 5_000_000, 1)?;
    testbed.drop_caches()?;
    // The shell's child is no child of this process: only its mark tells whose it is.
    let mut shell = testbed.command("sh");
    shell
        .arg("-c")
        .arg("(cd \"$0\"; echo $$; exec sleep 1000) & wait")
        .arg(&tree);
    shell.stdout(Stdio::piped());
    let mut shell = shell.spawn()?;
    let mut reader = BufReader::new(shell.stdout.take().ok_or("no output")?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    println!("{}", children_of(shell.id())?);
    loop {
        testbed.drop_caches()?;
        testbed
            .command("grep")
            .args(["-rq", workload::ABSENT_PATTERN])
            .arg(&tree)
            .stderr(Stdio::null())
            .status()?;
    }
}

fn children_of(pid: u32) -> std::io::Result<String> {
    fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).map(|text| text.trim().into())
}

fn nothing_remains_after_the_next_start(runtime_directory: &Path) -> Outcome {
    let next = Testbed::start(config(runtime_directory)?)?;
    let homes = homes(runtime_directory)?;
    assert_eq!(homes.len(), 1, "of killed testbeds there remain {homes:?}");
    let bound = bound_files(runtime_directory);
    assert_eq!(bound.len(), 1, "loop devices remain: {bound:?}");
    let home = homes[0].to_string_lossy().into_owned();
    let left: Vec<String> = mounts_below(runtime_directory)
        .into_iter()
        .filter(|mount| !mount.starts_with(&home))
        .collect();
    assert!(left.is_empty(), "mounts remain: {left:?}");
    drop(next);
    assert!(
        bound_files(runtime_directory).is_empty(),
        "a stopped testbed leaves its loop device"
    );
    assert!(
        mounts_below(runtime_directory).is_empty(),
        "a stopped testbed leaves mounts"
    );
    assert!(
        self::homes(runtime_directory)?.is_empty(),
        "a stopped testbed leaves its directory"
    );
    Ok(())
}

fn homes(runtime_directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(runtime_directory)?.map(|entry| entry.map(|entry| entry.path()));
    let paths: Vec<PathBuf> = paths.collect::<Result<_, _>>()?;
    Ok(paths.into_iter().filter(|path| path.is_dir()).collect())
}

/// The backing files of loop devices that belong to testbeds under this directory. Tests of other
/// crates may run testbeds elsewhere.
fn bound_files(runtime_directory: &Path) -> Vec<String> {
    let Ok(devices) = fs::read_dir("/sys/block") else {
        return Vec::new();
    };
    let prefix = runtime_directory.to_string_lossy().into_owned();
    let names: Vec<String> = devices
        .flatten()
        .filter_map(|device| fs::read_to_string(device.path().join("loop/backing_file")).ok())
        .collect();
    // In another mount namespace, or unmounted, a file's path may have lost its beginning.
    let ours = |name: &String| {
        name.starts_with(&prefix)
            || homes(runtime_directory)
                .unwrap_or_default()
                .iter()
                .any(|home| {
                    home.file_name()
                        .is_some_and(|id| name.contains(&*id.to_string_lossy()))
                })
    };
    names.into_iter().filter(ours).collect()
}

/// Mount points below this directory, in whatever namespace.
fn mounts_below(runtime_directory: &Path) -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let prefix = runtime_directory.to_string_lossy().into_owned();
    let mut points = Vec::new();
    for process in processes.flatten() {
        let Ok(mut file) = fs::File::open(process.path().join("mountinfo")) else {
            continue;
        };
        let mut text = String::new();
        if file.read_to_string(&mut text).is_ok() {
            let found = text.lines().filter_map(|line| line.split(' ').nth(4));
            points.extend(
                found
                    .filter(|point| point.starts_with(&prefix))
                    .map(str::to_owned),
            );
        }
    }
    points
}

/// Whether the process runs; a zombie does not.
fn is_running(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('Z'))
    })
}
