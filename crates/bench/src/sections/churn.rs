// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resources that `foreread watch` holds while programs, files and mounts come and go for some
//! minutes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use foreread_bench::service::Service;
use foreread_measure::disk::{Layout, ModelledDisk, preset};
use foreread_measure::foreread::Foreread;
use foreread_measure::programs::made_up_tree;
use foreread_measure::{MeasureError, process};
use foreread_testbed::workload::{ABSENT_PATTERN, SMALL_FILES};

use super::held::{HEADER, Times, alone, counted, troubles};
use crate::context::Context;
use crate::report::{Section, Target};

/// Short programs in a round, each of which reads some files.
const PROGRAMS: usize = 200;
const FILES_OF_EACH: usize = 6;
/// Files that vanish, shrink or are replaced in a round, a third each.
const CHANGED_FILES: usize = 300;

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let time = Duration::from_secs_f64(context.churn_minutes * 60.0);
    let mut disk = ModelledDisk::start(preset("nvme")?, Layout::Ext4)?;
    disk.fill(|root| made_up_tree(&root.join("tree"), SMALL_FILES))?;
    let foreread = Foreread::new(&context.foreread)?;
    context.say(&format!("churn: for {} s", time.as_secs()));
    let watch = Service::start(&disk, &foreread)?;
    let mut churn = Churn::of(&disk)?;
    churn.round(&disk)?;
    watch.settle(None);
    let first = watch.held()?;
    let (began, processor_began) = (Instant::now(), watch.processor_time()?);
    let mut most = first;
    while began.elapsed() < time {
        churn.round(&disk)?;
        most = most.or_more(watch.held()?);
    }
    watch.settle(Some(first));
    let last = watch.held()?;
    let processor = watch.processor_time()?.saturating_sub(processor_began);
    let busy_percent = 100.0 * processor.as_secs_f64() / began.elapsed().as_secs_f64();
    let said = watch.end()?;
    let mut rows = Times { first, most, last }.rows();
    rows.extend([
        alone("processor time, % of one", busy_percent, 1, Target::None),
        counted("walks", &said, "walks"),
        counted("files fetched", &said, "fetched_files"),
    ]);
    rows.extend(troubles(&said));
    Ok(Section {
        name: "churn",
        about: format!(
            "`foreread watch` for {:.1} minutes in which {} programs came and went and missed {} \
             files, {} files vanished, shrank or were replaced, and the disk was unmounted {} times \
             (ext4 on nvme).",
            began.elapsed().as_secs_f64() / 60.0,
            churn.programs,
            said.count("misses"),
            churn.changed_files,
            churn.rounds,
        ),
        header: HEADER.to_vec(),
        rows,
        notes: Vec::new(),
    })
}

/// The files, programs and rounds of the churn.
struct Churn {
    files: Vec<PathBuf>,
    rounds: usize,
    programs: usize,
    changed_files: usize,
}

impl Churn {
    fn of(disk: &ModelledDisk) -> Result<Self, MeasureError> {
        Ok(Self {
            files: disk.files_below("tree")?,
            rounds: 0,
            programs: 0,
            changed_files: 0,
        })
    }

    fn round(&mut self, disk: &ModelledDisk) -> Result<(), MeasureError> {
        disk.forget()?;
        self.run(
            disk,
            "grep",
            &["-rq".as_ref(), ABSENT_PATTERN.as_ref(), "tree".as_ref()],
        )?;
        disk.forget()?;
        // Each round begins elsewhere.
        let first = self.rounds * PROGRAMS * FILES_OF_EACH % self.files.len().max(1);
        let files: Vec<PathBuf> = self.files.iter().skip(first).cloned().collect();
        for some in files.chunks(FILES_OF_EACH).take(PROGRAMS) {
            let some: Vec<&Path> = some.iter().map(PathBuf::as_path).collect();
            self.run(disk, "cat", &some)?;
        }
        self.change()?;
        self.rounds += 1;
        Ok(())
    }

    fn run(
        &mut self,
        disk: &ModelledDisk,
        program: &str,
        arguments: &[&Path],
    ) -> Result<(), MeasureError> {
        let mut command: Command = disk.testbed().command(program);
        command.args(arguments).current_dir(disk.root());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        process::run(&mut command)?;
        self.programs += 1;
        Ok(())
    }

    fn change(&mut self) -> Result<(), MeasureError> {
        let cannot = || MeasureError::system("change files");
        let step = (self.files.len() / CHANGED_FILES).max(1);
        for (index, file) in self.files.iter().step_by(step).enumerate() {
            let bytes = fs::read(file).map_err(cannot())?;
            match index % 3 {
                0 => fs::remove_file(file).map_err(cannot())?,
                1 => File::create(file).map(drop).map_err(cannot())?,
                _ => {
                    let beside = file.with_extension("beside");
                    fs::write(&beside, &bytes).map_err(cannot())?;
                    fs::rename(&beside, file).map_err(cannot())?;
                }
            }
            // So that the next round finds as much.
            fs::write(file, bytes).map_err(cannot())?;
            self.changed_files += 1;
        }
        Ok(())
    }
}
