// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel of this machine and the model take the same decisions. Needs root, BPF and modelled
//! disks; says `skipped:` where they lack. `foreread check-kernel` runs more of the same.

use foreread_core::policy::{Fit, Kernel as Release, Limits, Policy};
use foreread_linux_check::{By, CheckError, Files, Kernel};
use foreread_model::DiskParameters;
use foreread_sim::check::{Facts, Machine, Model, Program, Sight, Step, check, generate};
use foreread_sys::memory::has_lru_generations;
use foreread_testbed::{FileSystem, Testbed, TestbedConfig};

/// Programs for each file system; `foreread check-kernel` runs 1,000.
const PROGRAMS: u64 = 60;

/// Runs something on the kernel, over a disk that needs no time.
fn on_kernel(file_system: FileSystem, by: By, run: impl FnOnce(&mut Kernel<'_>)) {
    let running = running();
    let (_, fit) = Release::of_release(&running);
    if fit != Fit::Modelled {
        println!("skipped: {running} is no kernel that is modelled");
        return;
    }
    if let Err(lacking) = Testbed::available().and_then(|()| file_system.available()) {
        println!("skipped: {lacking}");
        return;
    }
    let parameters = DiskParameters::preset("nvme").expect("a preset");
    let testbed = Testbed::start(TestbedConfig::new(parameters, 512 << 20)).expect("a disk");
    testbed.instantly(|| {
        testbed.make_file_system(file_system, &[]).expect("mkfs");
        let directory = testbed.mount(file_system, "noatime").expect("a mount");
        let files = Files::make(&directory).expect("files");
        let set = |kib| {
            let set = testbed.set_read_ahead_kib(kib);
            set.map_err(std::io::Error::other)
        };
        match Kernel::new(files, Some(&set), by) {
            Ok(mut kernel) => run(&mut kernel),
            Err(CheckError::Bpf(error)) => println!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        }
        testbed.unmount().expect("an unmount");
    });
}

/// The model of this machine's kernel.
fn model() -> Model {
    let (kernel, _) = Release::of_release(&running());
    Model {
        has_generations: has_lru_generations(),
        ..Model::of(kernel.policy)
    }
}

fn running() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default()
}

fn assert_equal(kernel: &mut Kernel<'_>, program: &Program) -> u8 {
    let checked = check(kernel, program, model()).expect("it runs");
    assert!(
        !checked.is_unsure,
        "program {} proves nothing",
        program.number
    );
    if let Some(difference) = checked.difference {
        let (there, here) = difference.sides();
        panic!(
            "program {} of seed {}, step {} ({}): {}\n  kernel {there}\n  model  {here}",
            program.number,
            program.seed,
            difference.step,
            program.steps[difference.step],
            difference.what
        );
    }
    checked.misled
}

fn assert_all_equal(file_system: FileSystem) {
    on_kernel(file_system, By::Bpf, |kernel| {
        for number in 0..PROGRAMS {
            assert_equal(kernel, &generate(1, number));
        }
    });
}

#[test]
fn ext4_reads_as_the_model_says() {
    assert_all_equal(FileSystem::Ext4);
}

#[test]
fn xfs_reads_as_the_model_says() {
    assert_all_equal(FileSystem::Xfs);
}

#[test]
fn btrfs_reads_as_the_model_says() {
    assert_all_equal(FileSystem::Btrfs);
}

/// The facts from sysfs and dropped pages are the same as those that BPF reads from the kernel.
#[test]
fn without_bpf_the_same_is_known_of_a_file() {
    for file_system in FileSystem::ALL {
        let facts = |by| {
            let mut facts: Vec<Facts> = Vec::new();
            on_kernel(file_system, by, |kernel| {
                for number in 0..6 {
                    facts.push(kernel.begin(&generate(1, number)).expect("it begins"));
                }
            });
            facts
        };
        let by_residency = facts(By::Residency);
        let by_bpf = facts(By::Bpf);
        if !by_bpf.is_empty() {
            assert_eq!(by_residency, by_bpf, "{}", file_system.name());
        }
    }
}

#[test]
fn by_residency_each_file_system_reads_as_the_model_says() {
    for file_system in FileSystem::ALL {
        on_kernel(file_system, By::Residency, |kernel| {
            assert_eq!(kernel.sight(), Sight::Residency);
            for number in 0..PROGRAMS {
                assert_equal(kernel, &generate(1, number));
            }
        });
    }
}

#[test]
fn before_cachestat_it_is_waited_for_until_nothing_changes() {
    on_kernel(FileSystem::Btrfs, By::Residency, |kernel| {
        kernel.without_cachestat();
        assert!(!kernel.counts_arrivals());
        for number in 0..6 {
            assert_equal(kernel, &generate(1, number));
        }
    });
}

#[test]
fn by_residency_a_wrong_model_is_found() {
    on_kernel(FileSystem::Ext4, By::Residency, |kernel| {
        let program = generate(1, 144);
        assert_equal(kernel, &program);
        let mut wrong = model();
        wrong.quirks &= !Limits::QUIRK_SHORT_HISTORY;
        let checked = check(kernel, &program, wrong).expect("it runs");
        assert!(checked.difference.is_some());
    });
}

#[test]
fn each_known_departure_is_met_and_missed_without_it() {
    on_kernel(FileSystem::Ext4, By::Bpf, |kernel| {
        let mut met = [0; Limits::QUIRKS.len()];
        let mut shown = met;
        for number in 0..400 {
            let program = generate(1, number);
            let misled = assert_equal(kernel, &program);
            for (index, (_, quirk)) in Limits::QUIRKS.into_iter().enumerate() {
                if model().quirks & quirk == 0 {
                    shown[index] = 1;
                }
                if misled & quirk == 0 {
                    continue;
                }
                met[index] += 1;
                let mut without = model();
                without.quirks &= !quirk;
                let checked = check(kernel, &program, without).expect("it runs");
                shown[index] += u32::from(checked.difference.is_some());
            }
        }
        for (index, (name, _)) in Limits::QUIRKS.into_iter().enumerate() {
            assert!(
                shown[index] > 0,
                "{name}: shown {}, met {}",
                shown[index],
                met[index]
            );
        }
    });
}

/// `do_sync_mmap_readahead()` counts the miss, and when the fault is taken again fault-around
/// counts the page as a hit: MMAP_LOTSAMISS is out of reach. Linux 7.3 is mended.
#[test]
fn a_mapping_that_only_misses_is_read_around_for_ever() {
    if model().policy == Policy::Linux73 {
        println!("skipped: Linux 7.3 counts misses");
        return;
    }
    on_kernel(FileSystem::Ext4, By::Bpf, |kernel| {
        let mut steps = vec![
            Step::Open { descriptor: 0 },
            Step::Map {
                descriptor: 0,
                start: 0,
                pages: 1500,
                slot: 0,
                exec: false,
            },
        ];
        // 187 faults, each far from the pages that the one before has read around.
        let pages = (0..187u64).map(|number| number * 89 % 187 * 8);
        steps.extend(pages.map(|page| Step::Touch { page }));
        let program = Program {
            seed: 0,
            number: 0,
            file: 15,
            read_ahead_kib: 16,
            steps,
        };
        assert_equal(kernel, &program);
        kernel.begin(&program).expect("it begins");
        let (mut misses, mut most) = (0, 0);
        for step in &program.steps {
            let seen = kernel.step(step).expect("it runs");
            let around = |event: &&foreread_sim::check::Event| event.0.contains("ra_order");
            misses += seen.events.iter().filter(around).count();
            most = most.max(seen.remembered[0].map_or(0, |state| state.mmap_miss));
        }
        println!("{misses} windows, mmap_miss at most {most}");
        assert!(misses > 150, "{misses} windows");
        assert!(most <= 1, "mmap_miss went up to {most}");
    });
}
