// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executes a command: beside this process, or in its place.
//!
//! Input: the words of the command; the first is looked for in `PATH`. The command gets this
//! process's environment, directory and descriptors, and the signal state of
//! [`Held::restore`](crate::signals::Held::restore). With [`run_as`] it gets another user's rights,
//! on each way in which a command is executed, also after a failure of ours: it never runs as root
//! by mistake.
//!
//! The child shares our memory until it calls exec, as with vfork(2). That copies no page tables
//! and needs no descriptor to tell of a failed exec. No error of ours can leave the command half
//! started: there is no state between "forked" and "executed".

use std::ffi::{CString, OsString, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::signals;
use crate::user::User;

/// The C library searches `PATH` on the stack; a script without `#!` is given to a shell with its
/// words once more.
const STACK_BYTES: usize = 64 << 10;

/// As whom commands are executed; by default as this process.
static RUN_AS: OnceLock<RunAs> = OnceLock::new();

/// Another user's rights and environment, ready for exec.
struct RunAs {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    _variables: Vec<CString>,
    pointers: Vec<*const c_char>,
}

// SAFETY: the pointers lead to the variables, which nobody changes.
unsafe impl Send for RunAs {}
// SAFETY: as above.
unsafe impl Sync for RunAs {}

/// From now on commands are executed with this user's rights. To be called once, before the first
/// command.
///
/// # Errors
/// When it was called before.
pub(crate) fn run_as(user: &User) -> io::Result<()> {
    let variables = user.environment();
    let mut pointers: Vec<_> = variables.iter().map(|one| one.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let run_as = RunAs {
        uid: user.uid,
        gid: user.gid,
        groups: user.groups.clone(),
        _variables: variables,
        pointers,
    };
    let set = RUN_AS.set(run_as);
    set.map_err(|_| io::Error::from(io::ErrorKind::AlreadyExists))
}

impl RunAs {
    /// Gives up this process's rights for those of the user. Groups come first: without the rights
    /// of root they can't be changed.
    ///
    /// By system calls and not by the C library: that changes all threads of the process, and in a
    /// child that shares our memory it would wait for threads that the child doesn't have. The
    /// kernel makes that memory undumpable (`commit_creds()`), so the user can't trace the child
    /// before it is executed.
    fn take_effect(&self) -> io::Result<()> {
        let (uid, gid) = (self.uid, self.gid);
        // SAFETY: plain system calls; the groups live through the first.
        let results = unsafe {
            let groups = self.groups.as_ptr();
            [
                libc::syscall(libc::SYS_setgroups, self.groups.len(), groups),
                libc::syscall(libc::SYS_setresgid, gid, gid, gid),
                libc::syscall(libc::SYS_setresuid, uid, uid, uid),
            ]
        };
        match results {
            [0, 0, 0] => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::EPERM)),
        }
    }
}

/// A command whose words are ready for exec.
pub(crate) struct Prepared {
    words: Vec<CString>,
    pointers: Vec<*const c_char>,
}

// SAFETY: the pointers lead to the words, which nobody changes.
unsafe impl Send for Prepared {}
// SAFETY: as above.
unsafe impl Sync for Prepared {}

/// Why a command was not started.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// No process could be made.
    NoProcess(io::Error),
    /// Exec failed.
    NotExecuted(io::Error),
}

/// For the child.
struct Start<'a> {
    prepared: &'a Prepared,
    /// Why exec failed, 0 else.
    error: AtomicI32,
}

impl Prepared {
    /// # Errors
    /// When there is no word, or one has a zero byte.
    pub(crate) fn new(arguments: &[OsString]) -> io::Result<Self> {
        let words = arguments.iter().map(|word| CString::new(word.as_bytes()));
        let words: Vec<CString> = words.collect::<Result<_, _>>()?;
        if words.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
        pointers.push(std::ptr::null());
        Ok(Self { words, pointers })
    }

    /// Executes the command in the place of this process. Returns why that failed. Needs no memory
    /// and is async-signal-safe.
    pub(crate) fn exec(&self) -> io::Error {
        signals::hold().restore();
        let (name, words) = (self.pointers[0], self.pointers.as_ptr());
        match RUN_AS.get() {
            // SAFETY: the pointers lead to words that end with 0, and end with null.
            None => unsafe { libc::execvp(name, words) },
            Some(run_as) => {
                if let Err(error) = run_as.take_effect() {
                    return error;
                }
                // SAFETY: as above; so do the variables.
                unsafe { libc::execvpe(name, words, run_as.pointers.as_ptr()) }
            }
        };
        io::Error::last_os_error()
    }

    /// Starts the command as a child; returns its number once it is executed. The kernel writes the
    /// number to `number` before the child runs.
    ///
    /// # Errors
    /// Of making a process, or of exec.
    pub(crate) fn start(&self, number: *mut i32) -> Result<i32, NotStarted> {
        let mut stack = Vec::<u128>::new();
        let bytes = STACK_BYTES + 2 * size_of_val(self.pointers.as_slice());
        let count = bytes / size_of::<u128>();
        if stack.try_reserve_exact(count).is_err() {
            return Err(NotStarted::NoProcess(io::ErrorKind::OutOfMemory.into()));
        }
        let start = Start {
            prepared: self,
            error: AtomicI32::new(0),
        };
        // SAFETY: the stack and `start` live until the child has left our memory by exec or exit:
        // CLONE_VFORK suspends this thread until then.
        let pid = unsafe {
            let top = stack.as_mut_ptr().add(count).cast::<c_void>();
            let argument = (&raw const start).cast_mut().cast::<c_void>();
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT_SETTID;
            libc::clone(in_child, top, flags | libc::SIGCHLD, argument, number)
        };
        if pid < 0 {
            return Err(NotStarted::NoProcess(io::Error::last_os_error()));
        }
        match start.error.load(Ordering::Relaxed) {
            0 => Ok(pid),
            error => {
                // SAFETY: a child of ours that nobody else waits for.
                while unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) } < 0
                    && io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
                {
                }
                Err(NotStarted::NotExecuted(io::Error::from_raw_os_error(error)))
            }
        }
    }

    /// The name of the program.
    pub(crate) fn name(&self) -> String {
        let name = self.words.first().map(|name| name.to_string_lossy());
        name.unwrap_or_default().into_owned()
    }
}

/// Runs in the memory of its parent, so it changes nothing but signal state, which is its own.
extern "C" fn in_child(start: *mut c_void) -> c_int {
    // SAFETY: the parent waits, and gave a pointer to this.
    let start = unsafe { &*start.cast_const().cast::<Start<'_>>() };
    let error = start.prepared.exec().raw_os_error().unwrap_or(libc::EIO);
    start.error.store(error, Ordering::Relaxed);
    // SAFETY: ends the child without anything that the parent will do at its own end.
    unsafe { libc::_exit(127) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(words: &[&str]) -> Result<i32, NotStarted> {
        let mut number = 0;
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        Prepared::new(&words).unwrap().start(&raw mut number)
    }

    fn end_of(pid: i32) -> i32 {
        let mut status = 0;
        // SAFETY: a child of ours; the kernel fills a number that lives through the call.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn a_command_is_executed_or_it_is_said_why_not() {
        assert_eq!(end_of(started(&["sh", "-c", "exit 7"]).unwrap()), 7);
        let error = started(&["/no/such/program"]).unwrap_err();
        let is_missing = matches!(&error, NotStarted::NotExecuted(error)
            if error.kind() == io::ErrorKind::NotFound);
        assert!(is_missing, "{error:?}");
    }

    #[test]
    fn a_script_without_a_first_line_goes_to_a_shell() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script");
        let script = script.to_str().unwrap();
        // By another process: a child of another test may inherit our descriptor, and what is open
        // for writing can't be executed.
        let make = "printf 'exit $#\\n' > \"$0\"; chmod 755 \"$0\"";
        assert_eq!(end_of(started(&["sh", "-c", make, script]).unwrap()), 0);
        let mut words = vec![script];
        words.extend(std::iter::repeat_n("word", 200));
        assert_eq!(end_of(started(&words).unwrap()), 200);
    }
}
