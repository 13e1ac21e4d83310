// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel of this machine and the model take the same decisions. Needs root, BPF and modelled
//! disks; says `skipped:` where they lack.

use foreread_core::policy::Limits;
use foreread_linux::check_kernel::{CheckError, Files, Kernel};
use foreread_model::DiskParameters;
use foreread_sim::check::{check, generate, shrink};
use foreread_testbed::{FileSystem, Testbed, TestbedConfig};

const QUIRKS: u8 = Limits::QUIRKS_6_18;

fn equal_on(file_system: FileSystem, programs: u64) {
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
            testbed
                .set_read_ahead_kib(kib)
                .map_err(std::io::Error::other)
        };
        let mut kernel = match Kernel::new(files, Some(&set)) {
            Ok(kernel) => kernel,
            Err(CheckError::Bpf(error)) => {
                println!("skipped: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
        let from = std::env::var("FROM").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
        let to = std::env::var("TO").ok().and_then(|s| s.parse().ok()).unwrap_or(programs);
        let mut bad = 0;
        let mut misled = [0; 8];
        let mut tries = 0;
        for number in from..to {
            let program = generate(seed, number);
            let checked = check(&mut kernel, &program, QUIRKS).expect("it runs");
            tries += checked.tries - 1;
            assert!(!checked.is_unsure, "program {number}");
            for (bit, count) in misled.iter_mut().enumerate() {
                *count += u32::from(checked.misled >> bit & 1);
            }
            if checked.difference.is_none() {
                continue;
            }
            bad += 1;
            if bad > 4 {
                continue;
            }
            let shrunk = shrink(&program, 300, |program| {
                Ok::<_, CheckError>(check(&mut kernel, program, QUIRKS)?.difference.is_some())
            })
            .expect("it runs");
            let again = check(&mut kernel, &shrunk, QUIRKS).expect("it runs");
            println!(
                "program {number}: file {} of {} pages ({} bytes), {} KiB; {} steps of {}",
                program.file,
                program.file_bytes().div_ceil(4096),
                program.file_bytes(),
                program.read_ahead_kib,
                shrunk.steps.len(),
                program.steps.len()
            );
            let Some(difference) = again.difference.or(checked.difference) else {
                continue;
            };
            let at = difference.step;
            for step in at.saturating_sub(7)..=at {
                println!("  {}", shrunk.steps.get(step).map(ToString::to_string).unwrap_or_default());
                for event in &difference.kernel[step].events {
                    println!("      kernel {event}");
                }
                for event in &difference.model[step].events {
                    println!("      model  {event}");
                }
            }
            let (kernel_side, model_side) = difference.sides();
            println!("  {}\n    kernel {kernel_side}\n    model  {model_side}", difference.what);
        }
        println!("{}: {bad} of {} differ; met {misled:?}; {tries} again", file_system.name(), to - from);
        drop(kernel);
        testbed.unmount().expect("an unmount");
        assert_eq!(bad, 0);
    });
}

#[test]
fn ext4_reads_as_the_model_says() {
    equal_on(FileSystem::Ext4, 60);
}

#[test]
fn xfs_reads_as_the_model_says() {
    equal_on(FileSystem::Xfs, 60);
}

#[test]
fn btrfs_reads_as_the_model_says() {
    equal_on(FileSystem::Btrfs, 60);
}
