// SPDX-License-Identifier: MIT OR Apache-2.0
//! The historic benchmarks, in virtual time: stock beside the policies of the module, and beside
//! what the simulator says of the same scenario.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use foreread_core::grouped;
use foreread_core::policy::{Kernel, Policy};
use foreread_guest::{Guest, GuestError, Lab, Machine, disk_bytes, large_image};
use foreread_model::DiskParameters;
use foreread_sim::Scenario;
use foreread_sim::engine::{Keep, Outcome as Simulated, Setup, Simulation};
use foreread_sim::scenario::{Combination, Overrides};

use super::module::{Complaints, module_of, results};
use super::{Beside, Case};
use crate::context::{Context, GUEST_SCRIPTS, Row};

pub const CASE: Case = Case {
    name: "module-live",
    about: "`foreread.ko`: the historic benchmarks, stock beside each policy and beside the simulator",
    beside: Beside::Anything,
    run,
};

/// The folder of the scenarios.
pub(super) const SCENARIOS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/scenarios/live");
/// The names of the scenarios, and of their files.
pub const SCENARIO_NAMES: [&str; 8] = [
    "sequential",
    "interleaved",
    "reordered",
    "sparse",
    "random",
    "early-stops",
    "parallel",
    "thrashing",
];
const TIME_LIMIT: Duration = Duration::from_secs(3600);
/// A program may take so much longer than with stock; where readahead can only lose, it may read so
/// much more.
const MORE_PERCENT_MAX: u64 = 2;
/// Of so many windows in a hundred, pages may be evicted before their use.
const THRASHED_PERCENT_MAX: f64 = 1.0;
/// The simulator may be so far off.
const OFF_PERCENT_MAX: f64 = 10.0;
/// A guest has enough for a scenario that has so much.
const MUCH_MEMORY_PAGES: u64 = 1 << 18;
/// A guest that is to have little for its page cache needs so much besides.
const BESIDES_MIB: u32 = 110;

/// A scenario on one of its devices, and what it takes to play it.
struct Play {
    name: &'static str,
    scenario: Scenario,
    device: String,
    parameters: DiskParameters,
    /// Size of its disk; 0 until that is made.
    disk_bytes: u64,
    files: u32,
    file_mib: u32,
    read_ahead_kib: u32,
    memory: Memory,
}

/// Where a scenario gets its page cache from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// A guest that has enough for any.
    Enough,
    /// A guest of its own, of this size.
    Machine { size_mib: u32 },
    /// A cgroup with this limit, in a guest that has enough.
    Group { limit_kib: u64 },
}

impl Memory {
    /// The places where a page cache of this size is tried.
    fn places(cache_pages: u64) -> Vec<Self> {
        if cache_pages >= MUCH_MEMORY_PAGES {
            return vec![Self::Enough];
        }
        let size_mib = u32::try_from(cache_pages >> 8).unwrap_or(u32::MAX);
        let size_mib = size_mib.saturating_add(BESIDES_MIB);
        let limit_kib = cache_pages * 4;
        vec![Self::Machine { size_mib }, Self::Group { limit_kib }]
    }
}

impl Play {
    /// One for each device of a scenario.
    fn of(name: &'static str, kernel: Kernel) -> Result<Vec<Self>, GuestError> {
        let path = format!("{SCENARIOS}/{name}.toml");
        let wrong = |why: String| GuestError::Unexpected(format!("{path}: {why}"));
        let text = fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
        let parsed = Scenario::parse(&path, &text);
        let mut scenario = parsed.map_err(|error| wrong(error.to_string()))?;
        let overrides = Overrides {
            kernel: Some(kernel),
            ..Overrides::default()
        };
        let set = scenario.set(&overrides);
        set.map_err(|error| wrong(error.to_string()))?;
        let mut combinations = scenario.combinations();
        combinations.dedup_by_key(|one| one.device.name.clone());
        let play = |one: &Combination, memory| {
            let setup = scenario.setup(one);
            let bytes = setup.files.first().map_or(0, |file| file.bytes);
            let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            Self {
                name,
                scenario: scenario.clone(),
                device: one.device.name.clone(),
                parameters: one.device.parameters.clone(),
                disk_bytes: 0,
                files: count(setup.files.len() as u64),
                file_mib: count(bytes >> 20),
                read_ahead_kib: one.read_ahead_pages * 4,
                memory,
            }
        };
        let places = |one: &Combination| Memory::places(one.memory_pages);
        let plays = combinations.iter().flat_map(|one| {
            let places = places(one).into_iter();
            places.map(|memory| play(one, memory)).collect::<Vec<_>>()
        });
        Ok(plays.collect())
    }

    /// As rows have it.
    fn title(&self) -> String {
        let at = match self.memory {
            Memory::Group { .. } => " in a cgroup",
            _ => "",
        };
        format!("{}{at} on {}", self.name, self.device)
    }

    /// The disk that it needs.
    fn disk(&self) -> String {
        format!("{}-{}-{}", self.device, self.files, self.file_mib)
    }

    /// The line that tells the guest.
    fn line(&self) -> String {
        let Self {
            name,
            device,
            files,
            read_ahead_kib,
            ..
        } = self;
        let policies = self.scenario.policies.iter().map(|one| one.name());
        let policies: Vec<&str> = policies.collect();
        let disk = self.disk();
        let limit_kib = match self.memory {
            Memory::Group { limit_kib } => limit_kib,
            _ => 0,
        };
        format!(
            "{name} {device} {disk} {files} {read_ahead_kib} {limit_kib} {}",
            policies.join(" ")
        )
    }

    /// What the simulator says of it under this policy, with the page cache that was measured.
    fn simulated(&self, policy: &str, kernel: Kernel, cache_kib: u64) -> Option<Simulated> {
        let combinations = self.scenario.combinations().into_iter();
        let mut same = combinations
            .filter(|one| one.device.name == self.device && one.policy.name() == policy);
        let mut setup: Setup = self.scenario.setup(&same.next()?);
        setup.limits.folio_order_max = folio_order_max(kernel);
        // How far a head moves depends on the size of the disk.
        if self.disk_bytes > 0 {
            setup.disk.capacity_bytes = self.disk_bytes;
        }
        if let Memory::Machine { .. } = self.memory {
            setup.memory_pages = Some(cache_kib / 4);
        }
        Some(Simulation::new(setup, Keep::default()).run())
    }
}

/// ext4 has large folios since 6.16.
fn folio_order_max(kernel: Kernel) -> u8 {
    match kernel.policy {
        Policy::Linux61 | Policy::Linux612 => 0,
        _ => 9,
    }
}

/// What came of one scenario on one device under one policy.
struct Played {
    name: String,
    device: String,
    /// 0 where it was in none.
    group_kib: u64,
    /// `stock` is the kernel without a policy of the module.
    policy: String,
    bytes: u64,
    took_ns: u64,
    requests: u64,
    sectors: u64,
    windows: u64,
    thrashed: u64,
    /// Memory for the page cache, before.
    cache_kib: u64,
}

impl Played {
    fn of(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let mut word = || words.next().map(str::to_owned);
        let (name, device, policy) = (word()?, word()?, word()?);
        let mut number = || words.next()?.parse::<u64>().ok();
        Some(Self {
            name,
            device,
            policy,
            group_kib: number()?,
            bytes: number()?,
            took_ns: number()?,
            requests: number()?,
            sectors: number()?,
            windows: number()?,
            thrashed: number()?,
            cache_kib: number()?,
        })
    }

    fn is_of(&self, play: &Play, policy: &str) -> bool {
        let is_in_group = matches!(play.memory, Memory::Group { .. });
        self.name == play.name
            && self.device == play.device
            && self.policy == policy
            && (self.group_kib > 0) == is_in_group
    }

    fn mb_per_s(&self) -> f64 {
        self.bytes as f64 * 1e3 / self.took_ns.max(1) as f64
    }

    /// Windows of which pages were evicted before their use, of a hundred.
    fn thrashed_percent(&self) -> f64 {
        self.thrashed as f64 * 100.0 / self.windows.max(1) as f64
    }

    fn text(&self) -> String {
        format!(
            "{:.1} MB/s, {} requests, {:.1} MiB",
            self.mb_per_s(),
            grouped(self.requests),
            self.sectors as f64 / 2048.0
        )
    }

    /// The same, beside what the simulator says; and how far that is off, in percent.
    fn beside(&self, simulated: &Simulated) -> (String, f64) {
        let off = (simulated.bytes_per_s() / 1e6 / self.mb_per_s() - 1.0) * 100.0;
        let text = format!(
            "{}; simulated {:.1} MB/s ({off:+.0} %), {} requests, {:.1} MiB",
            self.text(),
            simulated.bytes_per_s() / 1e6,
            grouped(simulated.total.requests),
            simulated.total.request_bytes as f64 / f64::from(1 << 20)
        );
        (text, off)
    }
}

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let (modelled, _) = Kernel::of_release(kernel);
    let mut plays = Vec::new();
    for name in SCENARIO_NAMES {
        if context.scenarios.is_empty() || context.scenarios.iter().any(|one| one == name) {
            plays.extend(Play::of(name, modelled)?);
        }
    }
    let lab = Lab::build_virtual(&[])?;
    for play in &mut plays {
        let image = large_image(&lab, play.files, play.file_mib)?;
        let metadata = fs::metadata(&image).map_err(GuestError::at("look at", &image))?;
        play.disk_bytes = disk_bytes(metadata.len());
    }
    let (little, much): (Vec<&Play>, Vec<&Play>) =
        (plays.iter()).partition(|play| matches!(play.memory, Memory::Machine { .. }));
    let mut played = Vec::new();
    let mut complaints = Complaints::default();
    for plays in [much, little] {
        if plays.is_empty() {
            continue;
        }
        let (more, and_more) = play(context, kernel, &lab, &plays)?;
        played.extend(more);
        complaints.add(and_more);
    }
    let mut rows = vec![complaints.row("complaints of the kernel, caches left")];
    let mut agreements = [Agreement::default(), Agreement::default()];
    for play in &plays {
        let find = |policy: &str| {
            let found = played.iter().find(|played| played.is_of(play, policy));
            found.ok_or_else(|| {
                let title = play.title();
                GuestError::Unexpected(format!("{title} under {policy} has no line"))
            })
        };
        rows.extend(judge(play, find("stock")?, find("foreread")?));
        let policies = play.scenario.policies.iter().map(|one| one.name());
        for policy in ["stock"].into_iter().chain(policies) {
            let found = find(policy)?;
            let decided = match policy {
                "stock" => "linux",
                policy => policy,
            };
            let Some(simulated) = play.simulated(decided, modelled, found.cache_kib) else {
                continue;
            };
            let (text, off) = found.beside(&simulated);
            agreements[usize::from(sees_each_access(policy))].add(off);
            rows.push(Row::told(format!("{}: {policy}", play.title()), text));
        }
    }
    let [marks, accesses] = agreements;
    let name = "simulated beside measured, policies of misses and marks";
    // The list of known misses speaks of all scenarios. A few of them may agree where all do not.
    rows.push(if context.scenarios.is_empty() {
        let within = format!("within {OFF_PERCENT_MAX} %");
        Row::asserted(name, within, marks.text(), marks.near == marks.all)
    } else {
        Row::told(name, marks.text())
    });
    rows.push(Row::told(
        "simulated beside measured, policies of each access",
        accesses.text(),
    ));
    Ok(rows)
}

/// How often the simulator was near what was measured.
#[derive(Default)]
struct Agreement {
    near: u32,
    all: u32,
}

impl Agreement {
    fn add(&mut self, off_percent: f64) {
        self.all += 1;
        self.near += u32::from(off_percent.abs() <= OFF_PERCENT_MAX);
    }

    fn text(&self) -> String {
        format!("{} of {}", self.near, self.all)
    }
}

/// Whether a policy is told of each access by the simulator, and by the module only of misses and
/// marks, in arrears of the pages passed since. So the two need not come to the same windows.
fn sees_each_access(policy: &str) -> bool {
    ["linux-2.6.13", "leap", "distance", "foreread"].contains(&policy)
}

/// What a scenario asks of the policy `foreread`: never more time than stock; where readahead can
/// only lose, no more bytes; in little memory, nothing evicted before its use.
fn judge(play: &Play, stock: &Played, own: &Played) -> Vec<Row> {
    let at = format!("{}: foreread", play.title());
    let is_little_more = |own: u64, stock: u64| own <= stock * (100 + MORE_PERCENT_MAX) / 100;
    let ms = |played: &Played| played.took_ns as f64 / 1e6;
    let mib = |played: &Played| played.sectors as f64 / 2048.0;
    let most = format!("at most {MORE_PERCENT_MAX} % over stock");
    let mut rows = vec![Row::asserted(
        format!("{at}, time"),
        &most,
        format!("{:.1} ms; stock {:.1} ms", ms(own), ms(stock)),
        is_little_more(own.took_ns, stock.took_ns),
    )];
    if play.scenario.is_random {
        rows.push(Row::asserted(
            format!("{at}, bytes"),
            &most,
            format!("{:.1} MiB; stock {:.1} MiB", mib(own), mib(stock)),
            is_little_more(own.sectors, stock.sectors),
        ));
    }
    if play.memory != Memory::Enough {
        let text = format!(
            "{:.1} % of {} windows",
            own.thrashed_percent(),
            grouped(own.windows)
        );
        rows.push(Row::asserted(
            format!("{at}, windows evicted before their use"),
            format!("under {THRASHED_PERCENT_MAX} %"),
            text,
            own.windows > 0 && own.thrashed_percent() < THRASHED_PERCENT_MAX,
        ));
    }
    rows
}

/// Plays all of them in one guest, with the memory of the first.
fn play(
    context: &Context<'_>,
    kernel: &str,
    lab: &Lab,
    plays: &[&Play],
) -> Result<(Vec<Played>, Complaints), GuestError> {
    if plays.is_empty() {
        return Ok(Default::default());
    }
    let module = module_of(&Lab::build_module()?, kernel)?;
    let mut machine = Machine::of(lab.image(), DiskParameters::instant())?;
    let mut added = BTreeSet::new();
    for play in plays.iter().filter(|play| added.insert(play.disk())) {
        let image = large_image(lab, play.files, play.file_mib)?;
        machine.add_disk(&play.disk(), &image, play.parameters.clone())?;
    }
    let plan = tempfile::NamedTempFile::new()
        .map_err(|error| GuestError::Unexpected(format!("no temporary file: {error}")))?;
    let mut text = String::new();
    for play in plays {
        // A string takes all that is written.
        let _ = writeln!(text, "{}", play.line());
    }
    let at = |path: &Path, error| GuestError::Unexpected(format!("{}: {error}", path.display()));
    fs::write(plan.path(), text).map_err(|error| at(plan.path(), error))?;
    let mut guest = Guest::new(lab, kernel)?
        .machine(&machine)
        .file(module, "foreread.ko")
        .file(context.reader()?, "reader")
        .file(plan.path(), "plan")
        .file(format!("{GUEST_SCRIPTS}/module.sh"), "module.sh")
        .time_limit(TIME_LIMIT)
        .script("set -u\n. ./module.sh\nmodule_live\nmodule_log\n");
    if let Some(Memory::Machine { size_mib }) = plays.first().map(|play| play.memory) {
        guest = guest.memory_mib(size_mib);
    }
    for name in SCENARIO_NAMES {
        guest = guest.file(
            format!("{SCENARIOS}/{name}.toml"),
            &format!("scenario-{name}"),
        );
    }
    let outcome = guest.run()?;
    let lines = outcome.file("live")?;
    let played = lines.lines().filter_map(Played::of).collect();
    Ok((played, Complaints::of(&results(&outcome.file("results")?))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Verdict;

    const KERNEL: Kernel = Kernel::ALL[1];

    fn played(line: &str) -> Played {
        Played::of(line).unwrap()
    }

    #[test]
    fn each_scenario_can_be_played() {
        for name in SCENARIO_NAMES {
            let plays = Play::of(name, KERNEL).unwrap();
            assert!(!plays.is_empty());
            for play in plays {
                let mib = u64::from(play.file_mib);
                let setup = play.scenario.setup(&play.scenario.combinations()[0]);
                // One image has files of one size.
                assert!(setup.files.iter().all(|file| file.bytes == mib << 20));
                assert!(play.line().ends_with("foreread"), "{}", play.line());
            }
        }
        let line = Play::of("thrashing", KERNEL).unwrap()[0].line();
        assert!(
            line.starts_with("thrashing nvme nvme-300-4 300 1024 0 linux "),
            "{line}"
        );
        let line = Play::of("thrashing", KERNEL).unwrap()[1].line();
        assert!(line.contains(" 1024 131072 linux "), "{line}");
    }

    #[test]
    fn random_reads_are_held_to_stock_and_little_memory_to_its_windows() {
        let random = &Play::of("random", KERNEL).unwrap()[0];
        let stock = played("random hdd stock 0 100 1000 10 100 0 0 9");
        let missed = |play: &Play, line: &str| -> Vec<String> {
            let rows = judge(play, &stock, &played(line)).into_iter();
            let missed = rows.filter(|row| row.verdict == Verdict::Missed);
            missed.map(|row| row.name).collect()
        };
        let good = "random hdd foreread 0 100 1020 10 102 5 0 9";
        assert!(missed(random, good).is_empty());
        let slow = "random hdd foreread 0 100 1021 10 100 5 0 9";
        assert_eq!(missed(random, slow), ["random on hdd: foreread, time"]);
        let wide = "random hdd foreread 0 100 1000 10 103 5 0 9";
        assert_eq!(missed(random, wide), ["random on hdd: foreread, bytes"]);
        assert!(missed(&Play::of("sparse", KERNEL).unwrap()[0], wide).is_empty());
        let little = &Play::of("thrashing", KERNEL).unwrap()[1];
        let good = "thrashing nvme foreread 0 100 1000 10 100 1000 9 9";
        assert!(missed(little, good).is_empty());
        let bad = "thrashing nvme foreread 0 100 1000 10 100 1000 10 9";
        let row = "thrashing in a cgroup on nvme: foreread, windows evicted before their use";
        assert_eq!(missed(little, bad), [row]);
    }

    #[test]
    fn a_simulation_is_set_beside_what_was_measured() {
        let play = &Play::of("sequential", KERNEL).unwrap()[0];
        let simulated = play.simulated("linux", KERNEL, 9).unwrap();
        let ns = simulated.elapsed_ns;
        let line = format!("sequential hdd linux 0 {} {ns} 512 131072 0 0 9", 64 << 20);
        let (text, off) = played(&line).beside(&simulated);
        assert!(off.abs() < 0.1, "{off}");
        assert!(text.contains("64.0 MiB; simulated 119.9 MB/s ("), "{text}");
        assert!(play.simulated("nothing", KERNEL, 9).is_none());
    }
}
