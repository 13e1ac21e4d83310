// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resources that `foreread watch` holds while very many processes exist at once, each of which has
//! missed some files.

use foreread_bench::service::Service;
use foreread_measure::MeasureError;
use foreread_measure::disk::{Layout, ModelledDisk, preset};
use foreread_measure::foreread::Foreread;
use foreread_testbed::workload::{Crowd, small_files};

use super::held::{HEADER, Times, alone, counted, troubles};
use crate::context::Context;
use crate::report::{Section, Target};

/// More than the four that make a process suspect.
const FILES_OF_EACH: usize = 6;
const BYTES_PER_FILE: u64 = 1_500;
const SEED: u64 = 1;

pub fn measure(context: &mut Context) -> Result<Section, MeasureError> {
    let wanted = context.processes;
    let mut disk = ModelledDisk::start(preset("nvme")?, Layout::Ext4)?;
    context.say(&format!("many-processes: {wanted} at once"));
    let files = wanted * FILES_OF_EACH;
    disk.fill(|root| {
        let tree = root.join("tree");
        Ok(small_files(
            &tree,
            files,
            files as u64 * BYTES_PER_FILE,
            SEED,
        )?)
    })?;
    let foreread = Foreread::new(&context.foreread)?;
    let list = foreread.state().join("list");
    let paths = disk.files_below("tree")?;
    disk.forget()?;
    let watch = Service::start(&disk, &foreread)?;
    let first = watch.held()?;
    let ((processes, at_once), most) = watch.most_during(|| {
        let crowd = Crowd::begin(disk.testbed(), &paths, FILES_OF_EACH, &list)?;
        let seen = (crowd.processes(), watch.held()?);
        drop(crowd);
        watch.settle(Some(first));
        Ok(seen)
    })?;
    // Nothing of the disk is held open.
    disk.forget()?;
    let last = watch.held()?;
    let said = watch.end()?;
    let mut rows = Times { first, most, last }.rows();
    let resident_mib = at_once.resident_kib as f64 / 1024.0;
    rows.extend([
        alone(
            "resident while all exist, MiB",
            resident_mib,
            1,
            Target::None,
        ),
        counted("files missed", &said, "misses"),
        counted("walks", &said, "walks"),
    ]);
    rows.extend(troubles(&said));
    let mut notes = Vec::new();
    if processes < wanted {
        notes.push(format!(
            "This machine had room for {processes} only, not for {wanted}."
        ));
    }
    Ok(Section {
        name: "many-processes",
        about: format!(
            "`foreread watch` while {processes} processes exist at once, each of which has read \
             {FILES_OF_EACH} files of a tree of {files} (ext4 on nvme), and after their end."
        ),
        header: HEADER.to_vec(),
        rows,
        notes,
    })
}
