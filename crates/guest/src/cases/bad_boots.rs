// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bad boots of a small system from a modelled hard disk, in virtual time: with broken, foreign and
//! harmful profiles, without room, killed, cut short. Each is held against the same boot without
//! Foreread, and is followed by a good one.

use std::collections::HashMap;

use foreread_boot::portable::portable;
use foreread_guest::{GuestError, Outcome};
use foreread_measure::sample::Sample;
use foreread_profile::{Profile, decode, encode};

use super::{Beside, Case};
use crate::bad_boot::{Bad, Before, Condition};
use crate::bad_profiles::Traps;
use crate::begin::Begin;
use crate::boot_machine::{BootMachine, Setup, System};
use crate::context::{Context, GUEST_SCRIPTS, Row};
use crate::random::Random;

pub const CASE: Case = Case {
    name: "bad-boots",
    about: "`boot`: boots with broken, foreign and harmful profiles, killed and cut short, in virtual time",
    beside: Beside::Anything,
    run,
};

/// Time of a boot, over that of the same boot without Foreread.
const TIME_MAX: f64 = 1.02;
/// About the time of a boot: moments are drawn from it and some seconds more.
const BOOT_MS: u64 = 8_000;
/// Boots without Foreread under each condition; their median counts. Most are within 1 % of each
/// other, and a few 4 % faster.
const WITHOUT_BOOTS: u32 = 3;
/// A boot that takes longer is made so often in all, from the same state; the median counts.
const SLOW_BOOTS: usize = 3;
/// Boots without Foreread that are held to the same time, to see how many miss it by chance.
const CONTROL_BOOTS: usize = 8;
/// A boot in which nothing of Foreread runs, begun by a unit or in an initramfs.
const WITHOUT: &str = "foreread.boot=off systemd.mask=foreread-boot.service \
    systemd.mask=foreread-boot-reached.service";

const INSTALL: &str = "PATH=/usr/sbin:/usr/bin:/sbin:/bin; . \"$1/install.sh\"";

/// Waits until Foreread has ended, and takes along what it said.
const SCRIPT: &str = "
tries=0
while [ $tries -lt 240 ]; do
    case $(systemctl is-active foreread-boot.service bad-boot.service | tr '\\n' ' ') in
    *activ[ai]*ng* | active* | *' active '*) ;;
    *) break ;;
    esac
    tries=$((tries + 1)); sleep 1
done
{
    journalctl --no-pager --output=cat --unit=foreread-boot.service
    dmesg --notime | grep -E 'foreread|bad-boot: ' | grep -v -e 'ommand line' -e foreread_disk
} >/run/out/said
systemctl show --property=ActiveState,Result foreread-boot.service >/run/out/unit
ls -l /var/lib/foreread/boot >/run/out/kept 2>&1
cat /run/out/said /run/out/unit /run/out/kept
cp /var/lib/foreread/boot/boot.frp /var/lib/foreread/boot/history.json /run/out/ 2>/dev/null
sync
mount -o remount,ro / || true
";

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let another = Another::new(context, kernel)?;
    let mut yards = HashMap::new();
    let mut tried = Vec::new();
    for number in context.bad_boots.clone() {
        let kinds = Bad::round(&mut Random::of_part(context.seed, 0), BOOT_MS).len() as u32;
        let round = u64::from(number / kinds);
        let round = Bad::round(&mut Random::of_part(context.seed, round), BOOT_MS);
        let Some(bad) = round.get((number % kinds) as usize) else {
            continue;
        };
        let mut random = Random::of_part(context.seed, (1 << 32) | u64::from(number));
        let begin = match random.below(2) {
            0 => Begin::Unit,
            _ => Begin::Initramfs,
        };
        let yard = match yards.entry(begin.name()) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(Yard::new(context, kernel, begin, &another)?)
            }
        };
        let result = yard.try_bad(bad, &random)?;
        // A run that is interrupted has told what it found.
        println!("{kernel} bad-boots {number}: {}, {result}", begin.name());
        tried.push(result);
    }
    for yard in yards.values_mut() {
        yard.control(kernel)?;
    }
    Ok(rows(&yards, &tried))
}

/// A machine whose boots are recorded and replayed, and times of its boots without Foreread.
struct Yard<'lab> {
    machine: BootMachine<'lab>,
    before: Before,
    /// Usual boots, s: without Foreread, and with a process that does nothing but time them.
    usual_s: Vec<f64>,
    plain_s: Vec<f64>,
    /// Number of boots without Foreread that missed their own time.
    control_missed: usize,
    begin: Begin,
    /// Times of boots without Foreread.
    without_s: HashMap<Condition, f64>,
}

/// A boot that ended by itself or was cut.
struct Ended {
    /// When it was up; `None` if it was not, or was cut before.
    up_s: Option<f64>,
    said: String,
    outcome: Option<Outcome>,
    /// Why there is no outcome.
    error: String,
}

/// A bad boot and the one after it.
#[derive(Clone)]
struct Tried {
    name: String,
    /// When it was up, and by when it has to be.
    up_s: Option<f64>,
    within_s: f64,
    is_cut: bool,
    says: bool,
    next_up_s: Option<f64>,
    next_within_s: f64,
    /// Whether the next boot was given something, and no unit failed in either.
    next_is_good: bool,
    /// How often both were made.
    boots: usize,
    /// What was said in both, for a miss.
    said: String,
}

impl Tried {
    /// One that was cut has no time; the next one shows what the cut has done.
    fn reached(&self) -> bool {
        self.is_cut || self.up_s.is_some()
    }

    fn is_in_time(&self) -> bool {
        self.is_cut || self.up_s.is_some_and(|up_s| up_s <= self.within_s)
    }

    fn next_is_in_time(&self) -> bool {
        let in_time = |up_s| up_s <= self.next_within_s;
        self.next_is_good && self.next_up_s.is_some_and(in_time)
    }
}

impl std::fmt::Display for Tried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let up = |up_s: Option<f64>| up_s.map_or("not up".to_owned(), |s| format!("{s:.2} s"));
        let bad = match self.is_cut {
            true => "cut".to_owned(),
            false => format!("{} of {:.2}", up(self.up_s), self.within_s),
        };
        let next = format!("{} of {:.2}", up(self.next_up_s), self.next_within_s);
        write!(f, "{}: {bad}; next {next}", self.name)?;
        if self.boots > 1 {
            write!(f, "; medians of {} boots", self.boots)?;
        }
        let misses = [
            (self.reached(), "target"),
            (self.is_in_time(), "time"),
            (self.says, "journal"),
            (self.next_is_in_time(), "next boot"),
        ];
        let missed: Vec<&str> = misses
            .iter()
            .filter_map(|(holds, name)| (!holds).then_some(*name))
            .collect();
        match missed.is_empty() {
            true => Ok(()),
            false => write!(f, "; MISSED {}\n{}", missed.join(", "), self.said),
        }
    }
}

/// Profiles of another machine with the same packages.
struct Another {
    own: Vec<u8>,
    portable: Vec<u8>,
}

impl Another {
    fn new(context: &Context<'_>, kernel: &str) -> Result<Self, GuestError> {
        let (machine, _) = machine(context, kernel, Begin::Unit, true)?;
        let boot = ended(&machine, "foreread.boot=record", None)?;
        Ok(Self {
            portable: portable_of(&boot.file("boot.frp")?)?,
            own: boot.file("boot.frp")?,
        })
    }
}

/// As `foreread boot export --portable` writes it.
fn portable_of(own: &[u8]) -> Result<Vec<u8>, GuestError> {
    read(own).map(|own| encode(&portable(&own)))
}

fn read(profile: &[u8]) -> Result<Profile, GuestError> {
    decode(profile)
        .map_err(|error| GuestError::Unexpected(format!("the profile of a recorded boot: {error}")))
}

/// A machine that can be made bad, and what `install.sh` printed.
fn machine<'lab>(
    context: &Context<'lab>,
    kernel: &str,
    begin: Begin,
    is_relaid: bool,
) -> Result<(BootMachine<'lab>, String), GuestError> {
    let setup = Setup {
        is_relaid,
        ..Setup::of(System::Small, begin)
    };
    let machine = BootMachine::new(context.lab, &context.foreread, kernel, "hdd", setup)?;
    let folder = std::path::Path::new(GUEST_SCRIPTS).join("bad-boots");
    let printed = machine.change(INSTALL, &[folder.as_os_str()])?;
    Ok((machine, printed))
}

impl<'lab> Yard<'lab> {
    fn new(
        context: &Context<'lab>,
        kernel: &str,
        begin: Begin,
        another: &Another,
    ) -> Result<Self, GuestError> {
        let (machine, printed) = machine(context, kernel, begin, false)?;
        ended(&machine, "foreread.boot=record", None)?;
        let own = ended(&machine, "foreread.boot=replay", None)?;
        let profile = own.file("boot.frp")?;
        let before = Before {
            own: read(&profile)?,
            profile,
            history: own.file("history.json")?,
            of_another: another.own.clone(),
            portable: another.portable.clone(),
            traps: Traps::parse(&printed)?,
        };
        let mut yard = Self {
            machine,
            before,
            usual_s: Vec::new(),
            plain_s: Vec::new(),
            control_missed: 0,
            begin,
            without_s: HashMap::new(),
        };
        let boot = |line| ended(&yard.machine.copy()?, line, None);
        yard.plain_s.extend(boot("foreread.boot=plain")?.up_s);
        for _ in 0..WITHOUT_BOOTS {
            yard.usual_s.extend(boot(WITHOUT)?.up_s);
        }
        let usual_s = median(&yard.usual_s);
        yard.without_s.insert(Condition::Usual, usual_s);
        println!(
            "{kernel} bad-boots: {}, without foreread up after {} s; timed only {} s",
            begin.name(),
            seconds(&yard.usual_s),
            seconds(&yard.plain_s)
        );
        Ok(yard)
    }

    /// By when a boot has to be up, in s: when it is without Foreread, and 2 % more.
    fn within_s(&mut self, bad: &Bad, random: &Random) -> Result<f64, GuestError> {
        let condition = bad.condition();
        let known = self.without_s.get(&condition).copied();
        let without_s = match known {
            Some(without_s) => without_s,
            None => {
                let shortest = bad.shortest();
                let line = match condition {
                    Condition::Repair(word) => format!("{WITHOUT} {word}"),
                    _ => WITHOUT.to_owned(),
                };
                let mut times = Vec::new();
                for _ in 0..WITHOUT_BOOTS {
                    let machine = self.machine.copy()?;
                    shortest.prepare(&machine, &self.before, &mut random.clone())?;
                    times.extend(ended(&machine, &line, None)?.up_s);
                }
                let up_s = median(&times) - shortest.hang_s() as f64;
                self.without_s.insert(condition, up_s);
                up_s
            }
        };
        Ok(without_s * TIME_MAX + bad.hang_s() as f64)
    }

    /// Makes a boot bad, once, or so often that its time can be judged.
    fn try_bad(&mut self, bad: &Bad, random: &Random) -> Result<Tried, GuestError> {
        let mut tried = vec![self.try_once(bad, &mut random.clone())?];
        let is_in_time = |tried: &Tried| tried.is_in_time() && tried.next_is_in_time();
        let is_only_late =
            |tried: &Tried| tried.reached() && tried.next_is_good && tried.next_up_s.is_some();
        if !tried.iter().all(is_in_time) {
            while tried.iter().all(is_only_late) && tried.len() < SLOW_BOOTS {
                tried.push(self.try_once(bad, &mut random.clone())?);
            }
        }
        let times = |time: fn(&Tried) -> Option<f64>| {
            let known: Vec<f64> = tried.iter().filter_map(time).collect();
            (!known.is_empty()).then(|| median(&known))
        };
        let (up_s, next_up_s) = (times(|tried| tried.up_s), times(|tried| tried.next_up_s));
        // The last one is the one that is not only late, if there is one.
        let last = tried.last().cloned();
        let last = last.ok_or_else(|| GuestError::Unexpected("no boot".to_owned()))?;
        Ok(match is_only_late(&last) {
            true => Tried {
                up_s,
                next_up_s,
                boots: tried.len(),
                ..last
            },
            false => last,
        })
    }

    /// Holds boots without Foreread to the time of boots without Foreread, by the same rule.
    fn control(&mut self, kernel: &str) -> Result<(), GuestError> {
        let within_s = median(&self.usual_s) * TIME_MAX;
        for number in 0..CONTROL_BOOTS {
            let mut times = Vec::new();
            for _ in 0..SLOW_BOOTS {
                times.extend(ended(&self.machine.copy()?, WITHOUT, None)?.up_s);
                if times.first().is_some_and(|up_s| *up_s <= within_s) {
                    break;
                }
            }
            let boots = times.len();
            let up_s = median(&times);
            let is_missed = up_s > within_s;
            self.control_missed += usize::from(is_missed);
            println!(
                "{kernel} bad-boots control {number}: {}, without foreread: {up_s:.2} s of \
                 {within_s:.2}; {boots} boots{}",
                self.begin.name(),
                if is_missed { "; MISSED time" } else { "" },
            );
        }
        Ok(())
    }

    fn try_once(&mut self, bad: &Bad, random: &mut Random) -> Result<Tried, GuestError> {
        let within_s = self.within_s(bad, random)?;
        let usual_s = self.without_s.get(&Condition::Usual);
        let next_within_s = usual_s.copied().unwrap_or(0.0) * TIME_MAX;
        let machine = self.machine.copy()?;
        bad.prepare(&machine, &self.before, random)?;
        let boot = ended(&machine, &bad.command_line(), Some(bad))?;
        bad.mend(&machine)?;
        let next = ended(&machine, "", None)?;
        let is_cut = boot.outcome.as_ref().is_some_and(|outcome| outcome.is_cut);
        let says = bad.says();
        let has_said = says.iter().any(|part| boot.said.contains(part));
        let is_red = |boot: &Ended| {
            let unit = boot.outcome.as_ref().map(|outcome| outcome.file("unit"));
            unit.is_some_and(|unit| unit.is_ok_and(|unit| unit.contains("failed")))
        };
        let is_given = next.said.contains("this boot is ");
        Ok(Tried {
            name: bad.name(),
            up_s: boot.up_s,
            within_s,
            is_cut,
            says: is_cut || says.is_empty() || has_said,
            next_up_s: next.up_s,
            next_within_s,
            boots: 1,
            next_is_good: is_given && !is_red(&boot) && !is_red(&next),
            said: format!(
                "--- said\n{}{}--- said in the next boot\n{}{}",
                boot.said, boot.error, next.said, next.error
            ),
        })
    }
}

impl Ended {
    fn file(&self, name: &str) -> Result<Vec<u8>, GuestError> {
        let Some(outcome) = &self.outcome else {
            return Err(GuestError::Unexpected(self.error.clone()));
        };
        std::fs::read(outcome.files().join(name)).map_err(|error| {
            GuestError::Unexpected(format!("no {name} ({error}): {}", outcome.output))
        })
    }
}

/// Boots a machine with these words on the kernel's command line, and with what `bad` does while it
/// runs.
fn ended(machine: &BootMachine<'_>, line: &str, bad: Option<&Bad>) -> Result<Ended, GuestError> {
    let begin = bad.map(Bad::script).unwrap_or_default();
    let mut guest = machine.guest(line)?.script(format!("{begin}{SCRIPT}"));
    if bad.is_some_and(Bad::cuts_power) {
        guest = guest.cuts_power();
    }
    match guest.run() {
        Ok(outcome) => {
            let is_up = outcome.boot_s > 0.0;
            let said = outcome.file("said").unwrap_or_default();
            Ok(Ended {
                up_s: is_up.then_some(outcome.boot_s),
                said,
                outcome: Some(outcome),
                error: String::new(),
            })
        }
        // A boot that dies or hangs is what is looked for.
        Err(
            error @ (GuestError::Died { .. }
            | GuestError::HungAtBoot { .. }
            | GuestError::TimeLimit { .. }),
        ) => Ok(Ended {
            up_s: None,
            said: String::new(),
            outcome: None,
            error: error.to_string(),
        }),
        Err(error) => Err(error),
    }
}

fn median(times: &[f64]) -> f64 {
    Sample::new(times.iter().copied()).median()
}

fn seconds(times: &[f64]) -> String {
    let times: Vec<String> = times.iter().map(|s| format!("{s:.2}")).collect();
    times.join(", ")
}

fn rows(yards: &HashMap<&'static str, Yard<'_>>, tried: &[Tried]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut names: Vec<_> = yards.keys().copied().collect();
    names.sort_unstable();
    for name in names {
        rows.push(Row::told(
            format!("{name}: up without foreread, s; timed only"),
            format!(
                "{}; {}",
                seconds(&yards[name].usual_s),
                seconds(&yards[name].plain_s)
            ),
        ));
        rows.push(Row::told(
            format!("{name}: boots without foreread that miss their own time + 2 %"),
            format!("{} of {CONTROL_BOOTS}", yards[name].control_missed),
        ));
    }
    let median_of = |ratio: fn(&Tried) -> Option<f64>| {
        let ratios: Vec<f64> = tried.iter().filter_map(ratio).collect();
        format!("{:.3}", median(&ratios))
    };
    rows.push(Row::told(
        "median time, of that without foreread: bad boots; next boots",
        format!(
            "{}; {}",
            median_of(|tried| Some(tried.up_s? * TIME_MAX / tried.within_s)),
            median_of(|tried| Some(tried.next_up_s? * TIME_MAX / tried.next_within_s))
        ),
    ));
    let count = |name: &str, holds: fn(&Tried) -> bool| {
        let missed: Vec<String> = tried
            .iter()
            .filter(|tried| !holds(tried))
            .map(ToString::to_string)
            .collect();
        let value = format!("{} of {}", tried.len() - missed.len(), tried.len());
        Row::asserted(name, "all", value, missed.is_empty()).detail(missed.join("\n"))
    };
    rows.push(count("bad boots reach their target", Tried::reached));
    rows.push(count(
        "they take the time without foreread + 2 % at most",
        Tried::is_in_time,
    ));
    rows.push(count("the journal says what happened", |tried| tried.says));
    rows.push(count(
        "the next boots reach theirs, in that time",
        Tried::next_is_in_time,
    ));
    rows
}
