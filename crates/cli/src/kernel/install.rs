// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread kernel install`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use foreread_linux_module::{Kernel, Lack, Sources, VERSION, build, dkms, tested_names};
use serde::Serialize;

use super::args::InstallArguments;
use super::journal::{Builder, ForKernel, Installed, create};
use super::{check_root, kernel_of, state_path, uninstall};
use crate::output;
use crate::text::{self, escaped_path};

/// `foreread.kernel.install/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InstallJson {
    schema: &'static str,
    /// Whether nothing was done, as was asked.
    dry_run: bool,
    /// The kernel that the module is built for, as `uname -r` prints it.
    kernel: String,
    /// Version of the module.
    version: &'static str,
    /// Where its sources are.
    sources: String,
    /// What builds it.
    builder: Builder,
    /// Each thing that is missing, with the remedy. Nothing is built while there are any.
    lacks: Vec<String>,
    /// Whether the module is installed now.
    is_installed: bool,
    /// The file that modprobe loads; null if it isn't installed.
    module: Option<String>,
}

pub fn install(arguments: &InstallArguments) -> Result<ExitCode> {
    let root = &arguments.place.root;
    let state = state_path(root);
    if arguments.after_upgrade {
        return after_upgrade(arguments, &state);
    }
    let kernel = kernel_of(root, arguments.kernel.as_deref())?;
    let plan = Plan::new(arguments, kernel)?;
    if arguments.dry_run {
        print(arguments, &plan)?;
        return Ok(ExitCode::SUCCESS);
    }
    check_root(root)?;
    plan.check()?;
    replace_other(&state, root)?;
    plan.carry_out(&state)?;
    print(arguments, &plan)?;
    Ok(ExitCode::SUCCESS)
}

/// The installation for one kernel.
struct Plan {
    sources: Sources,
    kernel: Kernel,
    builder: Builder,
    lacks: Vec<Lack>,
    is_forced: bool,
}

impl Plan {
    fn new(arguments: &InstallArguments, kernel: Kernel) -> Result<Self> {
        let root = &arguments.place.root;
        let sources = Sources::find(root, arguments.sources.as_deref())?;
        // DKMS builds nothing of use for kernels that the module was not tested on.
        let is_forced = arguments.force && !kernel.is_tested();
        let uses_dkms = root == Path::new("/")
            && !arguments.without_dkms
            && !is_forced
            && sources.is_whole()
            && dkms::is_there();
        let lacks = kernel.lacks();
        Ok(Self {
            sources,
            kernel,
            builder: match uses_dkms {
                true => Builder::Dkms,
                false => Builder::Make,
            },
            lacks,
            is_forced,
        })
    }

    /// Whether the module can be built.
    fn check(&self) -> Result<()> {
        let release = self.kernel.release();
        if !self.kernel.is_tested() && !self.is_forced {
            bail!(
                "the module was tested on Linux {}, and this is {release}; --force builds it all \
                 the same",
                tested_names()
            );
        }
        if !self.lacks.is_empty() {
            let lacks: Vec<String> = self.lacks.iter().map(ToString::to_string).collect();
            bail!("cannot build it for {release}: {}", lacks.join("; "));
        }
        Ok(())
    }

    /// Builds and installs it. Each step is written down before.
    fn carry_out(&self, state: &Path) -> Result<()> {
        create(state)?;
        let mut installed = Installed::read(state)?.unwrap_or_else(|| Installed::new(VERSION));
        let release = self.kernel.release();
        let before = installed.builder(release);
        if before.is_some_and(|builder| builder != self.builder) {
            bail!(
                "it is installed for {release} in the other way, with or without DKMS; `foreread \
                 kernel uninstall` removes that"
            );
        }
        if self.builder == Builder::Dkms && !installed.uses_dkms() && dkms::knows(VERSION)? {
            bail!(
                "DKMS knows foreread/{VERSION} already, and not by this command; `dkms remove -m \
                 foreread -v {VERSION} --all` removes it"
            );
        }
        let bar = output::spinner();
        bar.set_message(format!("builds the module for {release}"));
        let done = match self.builder {
            Builder::Dkms => {
                installed.set(ForKernel::by_dkms(release));
                installed.write(state)?;
                dkms::install(&self.sources, &self.kernel)
            }
            Builder::Make => {
                let module = build::compile(&self.sources, &self.kernel, state, self.is_forced)?;
                installed.set(ForKernel::by_make(build::built(&self.kernel, &module)));
                installed.write(state)?;
                build::install(&self.kernel, &module)
            }
        };
        bar.finish_and_clear();
        done.with_context(|| format!("cannot install the module for {release}"))
    }
}

/// An installation of another version makes room.
fn replace_other(state: &Path, root: &Path) -> Result<()> {
    match Installed::read(state)? {
        Some(installed) if installed.is_due => Installed::forget(state),
        Some(installed) if installed.version != VERSION => {
            let stay = uninstall::remove(&installed, root)?;
            uninstall::note_those_that_stay(&stay);
            Installed::forget(state)
        }
        _ => Ok(()),
    }
}

/// Installs again for each kernel that is still there, after the removal for an upgrade. One that
/// fails does not keep the others from it, nor the upgrade from its end.
fn after_upgrade(arguments: &InstallArguments, state: &Path) -> Result<ExitCode> {
    let Some(due) = Installed::read(state)?.filter(|installed| installed.is_due) else {
        return Ok(ExitCode::SUCCESS);
    };
    check_root(&arguments.place.root)?;
    Installed::forget(state)?;
    for of in &due.kernels {
        let again = || -> Result<()> {
            let kernel = Kernel::named(&arguments.place.root, &of.release)?;
            let is_by_make = of.builder == Builder::Make;
            // DKMS had built one that refuses to be loaded there. Nobody asked for another one.
            if !kernel.is_installed() || !is_by_make && !kernel.is_tested() {
                return Ok(());
            }
            let mut plan = Plan::new(arguments, kernel)?;
            if is_by_make {
                plan.builder = Builder::Make;
                // That was asked for when it was installed.
                plan.is_forced = !plan.kernel.is_tested();
            }
            plan.check()?;
            plan.carry_out(state)
        };
        if let Err(error) = again() {
            output::error(&error);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print(arguments: &InstallArguments, plan: &Plan) -> Result<()> {
    let module = plan.kernel.module().map(|path| escaped_path(&path));
    if arguments.place.json {
        return text::print_json(&InstallJson {
            schema: "foreread.kernel.install/1",
            dry_run: arguments.dry_run,
            kernel: plan.kernel.release().to_owned(),
            version: VERSION,
            sources: escaped_path(plan.sources.directory()),
            builder: plan.builder,
            lacks: plan.lacks.iter().map(ToString::to_string).collect(),
            is_installed: module.is_some(),
            module,
        });
    }
    let release = plan.kernel.release();
    if !arguments.dry_run {
        let by = match plan.builder {
            Builder::Dkms => "; DKMS builds it anew for kernels that are installed later",
            Builder::Make => "",
        };
        let path = module.unwrap_or_else(|| escaped_path(&build::path(&plan.kernel)));
        return text::print(&format!(
            "Installed for {release}: {path}{by}.\n\
             Nothing is loaded yet: sudo foreread kernel load DEVICE --policy foreread\n\
             `foreread kernel uninstall` undoes it.\n"
        ));
    }
    let mut said = String::new();
    for lack in &plan.lacks {
        said += &format!("Missing: {lack}\n");
    }
    if !plan.kernel.is_tested() && !plan.is_forced {
        said += &format!(
            "Missing: a test on this kernel; it was tested on Linux {}, and --force builds it all \
             the same\n",
            tested_names()
        );
    }
    let sources = escaped_path(plan.sources.directory());
    said += &match plan.builder {
        Builder::Dkms => format!(
            "Would have DKMS build {sources} for {release}, and for kernels that are installed \
             later.\n"
        ),
        Builder::Make => format!(
            "Would build {sources} for {release}, and make {}.\n",
            escaped_path(&build::path(&plan.kernel))
        ),
    };
    text::print(&said)
}
