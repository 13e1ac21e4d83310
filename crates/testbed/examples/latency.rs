// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints the overhead of a read of the modelled disk over the time of the model: that of loop
//! device, FUSE and sleep. Every measurement on the testbed includes it.

use std::error::Error;
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::Instant;

use foreread_model::{DiskParameters, PRESET_NAMES};
use foreread_testbed::{Testbed, TestbedConfig};

const READS: u32 = 2_000;
const PAGE_BYTES: usize = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    println!("disk      model us   measured us   overhead us   of it the reply was late us");
    for name in PRESET_NAMES {
        let parameters = DiskParameters::preset(name).ok_or("no such disk")?;
        let testbed = Testbed::start(TestbedConfig::new(parameters, 64 << 20))?;
        let device = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(testbed.device())?;
        let reads = if *name == "hdd" { READS / 10 } else { READS };
        let mut buffer = vec![0; 2 * PAGE_BYTES];
        let start = buffer.as_ptr().align_offset(PAGE_BYTES);
        testbed.reset_counters();
        let started = Instant::now();
        for read in 0..u64::from(reads) {
            let page = read.wrapping_mul(7919) % (64 << 8);
            device.read_exact_at(&mut buffer[start..start + PAGE_BYTES], page * 4096)?;
        }
        let measured_us = started.elapsed().as_secs_f64() * 1e6 / f64::from(reads);
        let model_us = testbed.counters().busy_ns as f64 / 1e3 / f64::from(reads);
        let server = testbed.server_counters();
        let late_us = server.late_ns as f64 / 1e3 / server.timed_replies.max(1) as f64;
        println!(
            "{name:8} {model_us:9.1} {measured_us:13.1} {:13.1} {late_us:13.1}",
            measured_us - model_us
        );
    }
    Ok(())
}
