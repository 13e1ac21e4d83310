// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs of a scenario of `foreread sim`, on real files.
//!
//! In: a scenario, and a file for each of its files. Each thread of each of its programs makes the
//! requests that the simulator makes, in the same order, with the same random numbers, at the same
//! times. What the processor takes isn't played: a real one takes its own time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use foreread_measure::MeasureError;
use foreread_sim::Scenario;
use foreread_sim::engine::{ProgramSetup, Request, Requests, Setup, Through};
use foreread_testbed::mapped::MappedFile;
use rustix::fs::{Advice, fadvise};

use super::{Done, opening, panicked};

/// Plays the first combination of a scenario. `files` are those of the scenario, in its order.
pub fn play(scenario: &Path, files: &[PathBuf]) -> Result<Done, MeasureError> {
    let name = scenario.display().to_string();
    let text = fs::read_to_string(scenario);
    let text = text.map_err(MeasureError::system(format!("read {name}")))?;
    let scenario = Scenario::parse(&name, &text).map_err(|error| refused(error.to_string()))?;
    let combination = scenario.combinations().into_iter().next();
    let combination = combination.ok_or_else(|| refused(format!("{name} has no combination")))?;
    let setup = scenario.setup(&combination);
    check(&setup, files)?;
    let began = Instant::now();
    let opened: Vec<_> = setup.programs.iter().map(Opened::of).collect();
    let done = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (program, opened) in setup.programs.iter().zip(&opened) {
            for number in 0..program.threads {
                let player = Player {
                    setup: &setup,
                    program,
                    opened,
                    files,
                    began,
                };
                let thread = thread::Builder::new();
                let thread = thread.spawn_scoped(scope, move || player.play(number));
                threads.push(thread.map_err(MeasureError::system("start a thread"))?);
            }
        }
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(panicked())));
        joined.sum::<Result<u64, MeasureError>>()
    });
    Ok(Done {
        bytes: done?,
        elapsed: began.elapsed(),
    })
}

fn refused(why: String) -> MeasureError {
    MeasureError::Report("play", why)
}

/// Refuses what a real machine is not like.
fn check(setup: &Setup, files: &[PathBuf]) -> Result<(), MeasureError> {
    if setup.files.len() != files.len() {
        let (wanted, given) = (setup.files.len(), files.len());
        let why = format!("the scenario has {wanted} files, and {given} are given");
        return Err(refused(why));
    }
    for (file, path) in setup.files.iter().zip(files) {
        let metadata = fs::metadata(path).map_err(MeasureError::system(opening(path)))?;
        if metadata.len() < file.bytes {
            let (path, bytes) = (path.display(), file.bytes);
            return Err(refused(format!("{path} has fewer than {bytes} bytes")));
        }
        if file.cached.is_some() {
            let why = "files that are cached before anything runs aren't played".to_owned();
            return Err(refused(why));
        }
    }
    let is_advised = |program: &ProgramSetup| !matches!(program.through, Through::Mapping(1..));
    if !setup.programs.iter().all(is_advised) {
        let why = "mappings with advice aren't played".to_owned();
        return Err(refused(why));
    }
    Ok(())
}

/// An open file, which all threads of a program share.
enum Open {
    Read(File),
    Mapped(MappedFile),
}

impl Open {
    fn new(path: &Path, program: &ProgramSetup) -> Result<Self, MeasureError> {
        if let Through::Mapping(_) = program.through {
            return Ok(Self::Mapped(MappedFile::open(path)?));
        }
        let file = File::open(path).map_err(MeasureError::system(opening(path)))?;
        if let Some(advice) = program.advice {
            let advice = match advice {
                foreread_sim::engine::Advice::Normal => Advice::Normal,
                foreread_sim::engine::Advice::Sequential => Advice::Sequential,
                foreread_sim::engine::Advice::Random => Advice::Random,
            };
            fadvise(&file, 0, None, advice)
                .map_err(std::io::Error::from)
                .map_err(MeasureError::system("give advice"))?;
        }
        Ok(Self::Read(file))
    }
}

/// A file of a program, and the pass through it. Threads come to these in order.
type Pass = (usize, u64);

/// The open files of a program. Threads that are in the same pass share one. It is closed when all
/// have left it: a 65th open file would make the kernel wait for RCU until its table has grown,
/// which takes 8 ms.
struct Opened(Mutex<OpenFiles>);

struct OpenFiles {
    passes: BTreeMap<Pass, Arc<Open>>,
    /// By thread: where it is; `None` when it has ended.
    threads: Vec<Option<Pass>>,
}

impl Opened {
    fn of(program: &ProgramSetup) -> Self {
        Self(Mutex::new(OpenFiles {
            passes: BTreeMap::new(),
            threads: (0..program.threads)
                .map(|_| Some(Pass::default()))
                .collect(),
        }))
    }

    /// Thread `thread` comes to a pass, or ends.
    fn come_to(&self, thread: u64, pass: Option<Pass>) -> MutexGuard<'_, OpenFiles> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = usize::try_from(thread).unwrap_or(usize::MAX);
        if let Some(at) = files.threads.get_mut(number) {
            *at = pass;
        }
        let first = files.threads.iter().flatten().min().copied();
        match first {
            Some(first) => files.passes = files.passes.split_off(&first),
            None => files.passes.clear(),
        }
        files
    }
}

/// Plays threads of a program.
struct Player<'a> {
    setup: &'a Setup,
    program: &'a ProgramSetup,
    opened: &'a Opened,
    files: &'a [PathBuf],
    began: Instant,
}

impl Player<'_> {
    /// Returns the bytes that it read.
    fn play(&self, thread: u64) -> Result<u64, MeasureError> {
        self.wait_until(self.program.start_ns);
        let mut requests = Requests::new(self.program.seed, thread);
        let size = |at: usize| self.program.file_bytes(&self.setup.files, at);
        let until_ns = self.setup.until_ns.unwrap_or(u64::MAX);
        let (mut at, mut buffer, mut bytes) = (None, Vec::new(), 0);
        while let Some(request) = requests.next(self.program, size) {
            if self.now_ns() >= until_ns {
                break;
            }
            let open = match at.take().filter(|_| !request.opens) {
                Some(open) => open,
                None => self.open(thread, &request)?,
            };
            read(&open, &request, &mut buffer)?;
            at = Some(open);
            bytes += request.bytes;
            let thought_ns = match self.program.think_ns {
                0 => 0,
                think_ns => self.now_ns().saturating_add(think_ns),
            };
            let next_ns = thought_ns.max(self.program.paced_ns(bytes));
            self.wait_until(next_ns.min(until_ns));
        }
        drop(self.opened.come_to(thread, None));
        Ok(bytes)
    }

    fn open(&self, thread: u64, request: &Request) -> Result<Arc<Open>, MeasureError> {
        let number = self.program.files.get(request.file);
        let path = number.and_then(|number| self.files.get(*number));
        let path = path.ok_or_else(|| refused("a program has a file of no other".to_owned()))?;
        let pass = (request.file, request.round);
        let mut files = self.opened.come_to(thread, Some(pass));
        if let Some(open) = files.passes.get(&pass) {
            return Ok(Arc::clone(open));
        }
        let open = Arc::new(Open::new(path, self.program)?);
        files.passes.insert(pass, Arc::clone(&open));
        Ok(open)
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn wait_until(&self, ns: u64) {
        let left_ns = ns.saturating_sub(self.now_ns());
        if left_ns > 0 {
            thread::sleep(Duration::from_nanos(left_ns));
        }
    }
}

fn read(open: &Open, request: &Request, buffer: &mut Vec<u8>) -> Result<(), MeasureError> {
    match open {
        Open::Read(file) => {
            buffer.resize(usize::try_from(request.bytes).unwrap_or(usize::MAX), 0);
            let done = file.read_exact_at(buffer, request.offset_bytes);
            done.map_err(MeasureError::system("read"))?;
            black_box(buffer);
        }
        Open::Mapped(mapped) => {
            for page in request.pages() {
                black_box(mapped.touch(page));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(text: &str, files: &[(&str, usize)]) -> Result<Done, MeasureError> {
        let scratch = tempfile::tempdir().unwrap();
        let scenario = scratch.path().join("scenario.toml");
        fs::write(&scenario, text).unwrap();
        let paths = files.iter().map(|(name, bytes)| {
            let path = scratch.path().join(name);
            fs::write(&path, vec![7; *bytes]).unwrap();
            path
        });
        play(&scenario, &paths.collect::<Vec<_>>())
    }

    const TWO: &str = "[[file]]\nname = \"data\"\nsize = \"64K\"\ncount = 2\n";

    #[test]
    fn all_programs_read_what_the_scenario_says() {
        let files = [("a", 65_536), ("b", 70_000)];
        let text = "[[program]]\nfile = \"data\"\ncount = 2\nown_files = true\nthreads = 2\n\
                    request = \"8K\"\nadvice = \"random\"\n\
                    [[program]]\nfile = \"data\"\nrepeat = 2\nthrough = \"mmap\"\nthink = \"1us\"\n";
        let done = played(&format!("{TWO}{text}"), &files).unwrap();
        assert_eq!(done.bytes, (2 * 64 + 2 * 2 * 64) << 10);
    }

    #[test]
    fn a_file_is_closed_when_all_threads_have_left_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let program = ProgramSetup {
            threads: 2,
            ..ProgramSetup::new("two", vec![0, 1])
        };
        let opened = Opened::of(&program);
        let open = |thread, pass| {
            let open = Arc::new(Open::new(file.path(), &program).unwrap());
            opened.come_to(thread, Some(pass)).passes.insert(pass, open);
        };
        let left = || {
            let files = opened.0.lock().unwrap();
            files.passes.keys().copied().collect::<Vec<_>>()
        };
        open(0, (0, 0));
        open(0, (1, 0));
        // The other thread has not begun.
        assert_eq!(left(), [(0, 0), (1, 0)]);
        drop(opened.come_to(1, Some((1, 0))));
        assert_eq!(left(), [(1, 0)]);
        drop(opened.come_to(0, None));
        assert_eq!(left(), [(1, 0)]);
        drop(opened.come_to(1, None));
        assert_eq!(left(), []);
    }

    #[test]
    fn rates_and_ends_are_kept() {
        let files = [("a", 65_536), ("b", 65_536)];
        let text = "[[program]]\nfile = \"data\"\nrate = \"1MB\"\nstart = \"10ms\"\n";
        let done = played(&format!("{TWO}{text}"), &files).unwrap();
        assert_eq!(done.bytes, 128 << 10);
        assert!(done.elapsed >= Duration::from_millis(141), "{done:?}");
        let text = "[machine]\nuntil = \"20ms\"\n[[program]]\nfile = \"data\"\nrate = \"1MB\"\n";
        let done = played(&format!("{TWO}{text}"), &files).unwrap();
        assert!(done.bytes <= 24 << 10, "{done:?}");
    }

    #[test]
    fn what_a_machine_is_not_like_is_refused() {
        let program = "[[program]]\nfile = \"data\"\n";
        let small = [("a", 65_536), ("b", 4096)];
        let refused = |text: &str, files: &[(&str, usize)]| {
            let error = played(text, files).unwrap_err();
            error.to_string()
        };
        let text = format!("{TWO}{program}");
        assert!(refused(&text, &small).contains("fewer than 65536 bytes"));
        assert!(refused(&text, &small[..1]).contains("2 files, and 1 are given"));
        let cached = format!("{TWO}cached = \"all\"\n{program}");
        let whole = [("a", 65_536), ("b", 65_536)];
        assert!(refused(&cached, &whole).contains("cached before"));
        let advised = format!("{text}through = \"mmap\"\nmapping = [\"sequential\"]\n");
        assert!(refused(&advised, &whole).contains("mappings with advice"));
        assert!(refused("[[file]]\n", &whole).contains("name"));
    }
}
