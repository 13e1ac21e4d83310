// SPDX-License-Identifier: MIT OR Apache-2.0
//! What foreread itself reads from a cold disk.

use foreread_guest::GuestError;

use super::{Case, PREPARE};
use crate::context::{Context, Row};

pub const CASE: Case = Case {
    name: "cold-start",
    about: "what `run -- true` reads from the disk that foreread itself lies on, less what `true` does",
    run,
};

const MIB_MAX: f64 = 2.0;
const SECTORS_OF_MIB: f64 = 2048.0;

fn run(context: &Context<'_>, kernel: &str) -> Result<Vec<Row>, GuestError> {
    let script = format!(
        "{PREPARE}
cp foreread /usr/local/bin/foreread
sync
/usr/local/bin/foreread run -- /usr/bin/true
drop_caches; point alone; /usr/bin/true; point alone-end
drop_caches; point run; /usr/local/bin/foreread run -- /usr/bin/true; point run-end
"
    );
    let outcome = context.guest(kernel)?.script(script).run()?;
    let sectors = |point: &str| -> Result<u64, GuestError> {
        let between = outcome.between(point, &format!("{point}-end"))?;
        Ok(between.disk("root").read_sectors)
    };
    let own_sectors = sectors("run")?.saturating_sub(sectors("alone")?);
    let own_mib = own_sectors as f64 / SECTORS_OF_MIB;
    Ok(vec![Row::asserted(
        "own cold start, MiB read",
        format!("at most {MIB_MAX}"),
        format!("{own_mib:.1}"),
        own_mib <= MIB_MAX,
    )])
}
