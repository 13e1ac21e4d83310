// SPDX-License-Identifier: MIT OR Apache-2.0
//! `kill -9` at random moments of saving and journalling: afterwards there is the old or the new
//! file, and nothing else stays.
//!
//! `FOREREAD_KILLS=10000 cargo test -p foreread --test killed -- --nocapture` kills more often. The
//! seed of the moments is printed; `FOREREAD_SEED` sets it.

mod common;

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::{World, can_record, has_temporary, large_profile, read, stderr};
use foreread_profile::{encode, merge_profiles};
use foreread_testbed::fake_sysfs::{FakeDisk, Tree};
use serde_json::Value;

/// Kills of each test unless `FOREREAD_KILLS` says otherwise.
const KILLS: u32 = 150;
/// A save that has begun ends within this time.
const SAVING: Duration = Duration::from_micros(500);

fn kills() -> u32 {
    let set = env::var("FOREREAD_KILLS").ok();
    set.map_or(KILLS, |text| text.parse().expect("a number of kills"))
}

/// Random moments (xorshift).
struct Moments {
    state: u64,
    /// How long an undisturbed command takes.
    whole: Duration,
    kills_while_saving: u32,
}

impl Moments {
    fn of(whole: Duration) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let seed = match env::var("FOREREAD_SEED") {
            Ok(text) => text.parse().expect("a seed"),
            Err(_) => now.map_or(1, |now| now.as_nanos() as u64) | 1,
        };
        println!("FOREREAD_SEED={seed}, {} kills", kills());
        Self {
            state: seed,
            whole,
            kills_while_saving: 0,
        }
    }

    /// A part of a time.
    fn part(&mut self, of: Duration) -> Duration {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        of.mul_f64((self.state >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// Starts a command and kills it: every other time while it saves into this directory.
    fn kill(&mut self, round: u32, mut command: Command, directory: &Path) {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("foreread starts");
        if round.is_multiple_of(2) {
            sleep(self.part(self.whole.mul_f64(1.2)));
        } else if waited_for_saving(&mut child, directory) {
            self.kills_while_saving += 1;
            sleep(self.part(SAVING));
        }
        // It may have ended by itself: then there's nothing to kill.
        let _ = child.kill();
        child.wait().expect("it is waited for");
    }
}

/// Waits for the temporary file or the end.
fn waited_for_saving(child: &mut Child, directory: &Path) -> bool {
    while child.try_wait().expect("its state").is_none() {
        if has_temporary(directory) {
            return true;
        }
    }
    false
}

fn timed(mut command: Command) -> Duration {
    let begun = Instant::now();
    let output = command.output().expect("foreread starts");
    assert!(output.status.success(), "{}", stderr(&output));
    begun.elapsed()
}

#[test]
fn a_profile_is_the_old_or_the_new_one() {
    const FILES: u64 = 3000;
    let world = World::new();
    let [one, two] = [large_profile(FILES, 0), large_profile(FILES, 1 << 40)];
    common::write(&world.path("one"), &one);
    common::write(&world.path("two"), &two);
    let (old, new) = (encode(&one), encode(&merge_profiles(&one, &two)));
    let (state, out) = (world.state(), world.state().join("out.frp"));
    let merge = || world.foreread(&["merge", "-o", "state/out.frp", "one", "two"]);
    let mut moments = Moments::of(timed(merge()));
    let (mut olds, mut news) = (0, 0);
    for round in 0..kills() {
        fs::write(&out, &old).expect("the old one");
        moments.kill(round, merge(), &state);
        let there = fs::read(&out).expect("there is one");
        olds += u32::from(there == old);
        news += u32::from(there == new);
        let bytes = there.len();
        assert_eq!(olds + news, round + 1, "{bytes} bytes are neither");
    }
    let saving = moments.kills_while_saving;
    println!("{olds} old, {news} new, {saving} killed while saving");
    assert!(olds > 0, "no kill came before the end");
    timed(merge());
    assert!(fs::read(&out).expect("the result") == new);
    assert!(!has_temporary(&state));
}

#[test]
fn a_killed_run_leaves_a_whole_profile() {
    if !can_record() {
        return;
    }
    let world = World::new();
    world.tree(2000, 100);
    let (tree, state) = (world.path("tree"), world.state());
    let tree = tree.to_str().expect("text");
    // grep finds nothing and exits with 1.
    let search = ["sh", "-c", "! grep -rq needle \"$1\"", "sh", tree];
    let run = || world.foreread(&[&["run", "--fresh", "-q", "--"][..], &search].concat());
    let mut moments = Moments::of(timed(run()));
    let [path] = &world.profiles()[..] else {
        panic!("{:?}", world.profiles())
    };
    assert!(read(path).files().count() >= 2000);
    // A run takes ten times as long as a merge.
    for round in 0..kills() / 5 {
        moments.kill(round, run(), &state);
        assert!(read(path).files().count() >= 2000, "round {round}");
    }
    println!("{} killed while saving", moments.kills_while_saving);
    // The next run removes temporary files of killed runs.
    timed(run());
    assert!(!has_temporary(&state));
}

#[test]
fn a_changed_setting_is_always_in_the_journal() {
    let world = World::new();
    let tree = Tree::new(&world.path("machine")).expect("a tree");
    let disk = FakeDisk::usb("sdb", "8:16", 1 << 30);
    tree.disk(&disk).expect("a disk");
    let before = tree.read_ahead_kib("sdb").expect("a setting");
    let state = world.state().join("devices");
    let foreread = |words: &[&str]| {
        let mut command = world.foreread(&words[..1]);
        command.arg("--root").arg(tree.top()).args(&words[1..]);
        command
    };
    let apply = || foreread(&["apply", "sdb", "--read-ahead", "64K", "--take-over"]);
    let rollback = || foreread(&["rollback", "--all"]);
    let mut moments = Moments::of(timed(apply()));
    timed(rollback());
    let (mut changed, mut unchanged) = (0, 0);
    for round in 0..kills() {
        // Every other pair of kills is of a rollback.
        let is_rollback = round % 4 >= 2;
        if is_rollback {
            timed(apply());
        }
        let command = if is_rollback { rollback() } else { apply() };
        moments.kill(round, command, &state);
        let now = tree.read_ahead_kib("sdb").expect("a setting");
        assert!([before.as_str(), "64"].contains(&now.as_str()), "{now}");
        changed += u32::from(now != before);
        unchanged += u32::from(now == before);
        // The journal can be read, and undoes what was done.
        let status = foreread(&["status", "--json"]).output().expect("it starts");
        let document: Value = serde_json::from_slice(&status.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", stderr(&status)));
        let applied = document["applied"].as_array().expect("a list");
        assert!(now == before || !applied.is_empty(), "round {round}");
        let undone = rollback().output().expect("it starts");
        let code = undone.status.code();
        assert!(code == Some(0) || code == Some(1), "{}", stderr(&undone));
        let now = tree.read_ahead_kib("sdb").expect("a setting");
        assert_eq!(now, before, "round {round}: {}", stderr(&undone));
    }
    let saving = moments.kills_while_saving;
    println!("{changed} changed, {unchanged} unchanged, {saving} killed while journalling");
    timed(apply());
    timed(rollback());
    assert!(!has_temporary(&state));
}
