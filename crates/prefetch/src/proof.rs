// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides how much a replay may have under way, by the proof that its program follows the profile.
//!
//! In: how much the program itself had disks read by now, how many entries of the profile it came
//! to by itself, and how many pages of the replay it used. Out: how many reads, and how many bytes,
//! the replay may have under way until the next look.
//!
//! A program reads nothing by itself while it finds everything in memory, or waits for a read of
//! the replay. So there are four cases:
//!
//! * It reads by itself, and comes to entries of the profile: it follows. Each such sign doubles
//!   what may be under way, until nothing is limited any more.
//! * It reads by itself, and nothing shows that it follows: it goes elsewhere. Each such read
//!   halves what may be under way. Then the replay pauses, so no read of the program waits behind a
//!   read of ours.
//! * It reads by itself what other programs with a part of this profile read, too: that shows
//!   nothing. Two reads may be under way.
//! * It reads nothing. No read of it can be delayed, so a little may be under way, unless the
//!   program is known to have changed. Once it reads again without a sign, the replay pauses, and
//!   waits twice as long the next time.

use std::time::Duration;

/// How much may be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Reads at once.
    pub reads: u32,
    /// Their bytes.
    pub bytes: u64,
}

impl Allowance {
    /// No read may begin.
    pub const NOTHING: Self = Self { reads: 0, bytes: 0 };
    /// Nothing is limited.
    pub const ALL: Self = Self {
        reads: u32::MAX,
        bytes: u64::MAX,
    };

    /// Two reads of 128 KiB, and twice as much with each further step. Two are the least that keep
    /// a device busy.
    const fn of_level(level: u8) -> Self {
        match level {
            0 => Self::NOTHING,
            LEVEL_MAX.. => Self::ALL,
            _ => Self {
                reads: 1 << level,
                bytes: (128 << 10) << level,
            },
        }
    }
}

/// From this level on nothing is limited: the one before allows 32 reads of 128 KiB.
const LEVEL_MAX: u8 = 6;

/// Most that may be under way without proof. A disk with a head takes 40 ms for these four reads at
/// worst, once in each of the times that [`QUIET`] leads to.
const LEVEL_UNPROVEN_MAX: u8 = 2;

/// The same, while it reads what it shares with others.
const LEVEL_SHARED: u8 = 1;

/// The program counts as reading nothing after this time without a read of its own. A disk with a
/// head answers a read in less.
const QUIET: Duration = Duration::from_millis(10);
/// The time that is waited for after many pauses.
const QUIET_MAX: Duration = Duration::from_secs(10);

/// Time between two looks; a look takes some 50 us.
const LOOK_AFTER: Duration = Duration::from_millis(1);
/// The same, while nothing is limited.
const LOOK_AFTER_IF_PROVEN: Duration = Duration::from_millis(4);
/// The same at most, in a pause.
const LOOK_AFTER_MAX: Duration = Duration::from_secs(1);
/// In a pause, the time between two looks is this part of how long it has lasted: what looks cost
/// a program that never follows falls with time, and one that follows again waits little longer.
const PAUSE_FOR_LOOK: u32 = 8;

/// In a proven replay, so long without a read of the program's own counts as a sign: it finds what
/// was brought in, or waits for it. The time begins when it has gone on after its own last read.
const SIGN_OF_SILENCE: Duration = Duration::from_millis(4);

/// Bytes of one read of the program's own, at least, when more than one may have been made between
/// two looks. Small reads ask for 4 to 16 KiB, reads with readahead for up to 128 KiB.
const MISS_BYTES: u64 = 32 << 10;

/// Reads that are counted between two looks. Where processor time is short, looks are far apart,
/// and a sign is missed sooner than a read.
const MISSES_OF_LOOK_MAX: u8 = 2;

/// Signs that are needed at first of a profile with doubts, and most that are needed after pauses.
const SIGNS_IN_DOUBT: u64 = 4;
const SIGNS_MAX: u64 = 4;

/// All that was seen by now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Time since the first look.
    pub at: Duration,
    /// Bytes that the program itself had disks read. While this isn't known, it is 0.
    pub own_bytes: u64,
    /// How often a processor was given to the program. One that waits for a read is given none.
    pub slices: u64,
    /// Time for which the program, ready to run, waited for a processor.
    pub delayed: Duration,
    /// Entries of the profile that the program came to, and the replay did not.
    pub signs: u64,
    /// The same of entries that other programs come to as well, such as those of its interpreter.
    pub shared: u64,
    /// Pages that the replay brought in and that the program used. While this isn't known, it is 0.
    pub used_pages: u64,
}

/// Results, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// Entries of the profile that the program came to by itself.
    pub signs: u64,
    /// Reads of the program's own that were seen without a sign, at least.
    pub astray_misses: u64,
    /// How often the replay paused.
    pub pauses: u64,
    /// Whether it was proven at the end.
    pub is_proven: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Proof {
    in_doubt: bool,
    level: u8,
    is_proven: bool,
    seen: Seen,
    /// Signs that are needed in all for it to be proven.
    signs_needed: u64,
    /// Those that the next pause adds.
    signs_next: u64,
    /// The program's own time: without what it waited for a processor. A machine that is busy makes
    /// no silence.
    own_at: Duration,
    /// When, in that time, it read last, or went on after that, or the level was raised.
    silent_since: Duration,
    /// Whether it may still wait for the last read of its own.
    waits: bool,
    quiet: Duration,
    /// When the latest pause began.
    paused_at: Duration,
    followed: Followed,
}

impl Proof {
    /// No proof yet. `in_doubt` is whether it is known that the program has changed.
    #[must_use]
    pub fn new(in_doubt: bool) -> Self {
        let signs = if in_doubt { SIGNS_IN_DOUBT } else { 1 };
        Self {
            in_doubt,
            level: u8::from(!in_doubt),
            is_proven: false,
            seen: Seen::default(),
            signs_needed: signs,
            signs_next: signs,
            own_at: Duration::ZERO,
            silent_since: Duration::ZERO,
            waits: false,
            quiet: QUIET,
            paused_at: Duration::ZERO,
            followed: Followed::default(),
        }
    }

    /// How much may be under way now.
    #[must_use]
    pub fn allowance(&self) -> Allowance {
        Allowance::of_level(self.level)
    }

    /// Time until the next look. A replay that pauses for long is looked at seldom: its program may
    /// run for days.
    #[must_use]
    pub fn look_after(&self) -> Duration {
        match self.level {
            0 => {
                let lasted = self.seen.at.saturating_sub(self.paused_at);
                (lasted / PAUSE_FOR_LOOK).clamp(LOOK_AFTER, LOOK_AFTER_MAX)
            }
            LEVEL_MAX.. => LOOK_AFTER_IF_PROVEN,
            _ => LOOK_AFTER,
        }
    }

    /// The results so far.
    #[must_use]
    pub fn followed(&self) -> Followed {
        Followed {
            is_proven: self.is_proven,
            ..self.followed
        }
    }

    /// Takes in what was seen, and says how much may be under way from now on.
    pub fn look(&mut self, seen: Seen) -> Allowance {
        let own_bytes = seen.own_bytes.saturating_sub(self.seen.own_bytes);
        let has_run = seen.slices != self.seen.slices;
        let came = seen.signs > self.seen.signs;
        let is_shared = seen.shared > self.seen.shared;
        let is_sign = came || seen.used_pages > self.seen.used_pages;
        self.followed.signs = seen.signs;
        // Several processes may wait at the same time, so that this is more than has passed.
        let passed = seen.at.saturating_sub(self.seen.at);
        let delayed = seen.delayed.saturating_sub(self.seen.delayed);
        self.own_at += passed.saturating_sub(delayed);
        // What can't be told any more, such as of a process that has ended, takes nothing back.
        self.seen = Seen {
            at: seen.at,
            own_bytes: seen.own_bytes.max(self.seen.own_bytes),
            slices: seen.slices,
            // Of processes that have ended it is not known any more.
            delayed: seen.delayed,
            signs: seen.signs.max(self.seen.signs),
            shared: seen.shared.max(self.seen.shared),
            used_pages: seen.used_pages.max(self.seen.used_pages),
        };
        let reads = u8::try_from(own_bytes / MISS_BYTES).unwrap_or(u8::MAX);
        let misses = match is_sign || is_shared || own_bytes == 0 {
            true => 0,
            false => reads.clamp(1, MISSES_OF_LOOK_MAX),
        };
        self.followed.astray_misses += u64::from(misses);
        let is_silent = own_bytes == 0;
        if self.waits && is_silent && has_run {
            self.waits = false;
            self.silent_since = self.own_at;
        }
        self.waits |= !is_silent;
        match self.is_proven {
            true => self.look_at_proven(is_sign, misses),
            false => self.look_at_unproven(is_silent, is_shared),
        }
        if !is_silent {
            self.silent_since = self.own_at;
        }
        self.allowance()
    }

    fn look_at_proven(&mut self, is_sign: bool, misses: u8) {
        if misses >= self.level {
            self.pause();
            self.is_proven = false;
            self.signs_next = (self.signs_next * 2).min(SIGNS_MAX);
            self.signs_needed = self.seen.signs + self.signs_next;
        } else if misses > 0 {
            self.level -= misses;
        } else if is_sign || (!self.waits && self.is_silent_for(SIGN_OF_SILENCE)) {
            self.raise(LEVEL_MAX);
        }
    }

    fn look_at_unproven(&mut self, is_silent: bool, is_shared: bool) {
        if self.seen.signs >= self.signs_needed {
            self.is_proven = true;
            self.raise(LEVEL_MAX);
        } else if is_shared && !self.in_doubt {
            self.raise(LEVEL_SHARED);
        } else if !is_silent && self.level > 0 {
            self.pause();
            self.quiet = (self.quiet * 2).min(QUIET_MAX);
        } else if !self.waits && !self.in_doubt && self.is_silent_for(self.quiet) {
            self.raise(LEVEL_UNPROVEN_MAX);
        }
    }

    fn is_silent_for(&self, time: Duration) -> bool {
        self.own_at.saturating_sub(self.silent_since) >= time
    }

    fn raise(&mut self, most: u8) {
        self.level = (self.level + 1).min(most.max(self.level));
        self.silent_since = self.own_at;
    }

    fn pause(&mut self) {
        self.level = 0;
        self.silent_since = self.own_at;
        self.paused_at = self.seen.at;
        self.followed.pauses += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// Looks each millisecond from `from_ms` on, at what `seen` tells of a millisecond.
    fn look_from(
        proof: &mut Proof,
        from_ms: u64,
        count: u64,
        seen: impl Fn(u64) -> Seen,
    ) -> Allowance {
        for at in from_ms..from_ms + count {
            proof.look(Seen {
                at: ms(at),
                ..seen(at)
            });
        }
        proof.allowance()
    }

    #[test]
    fn a_program_that_follows_soon_has_all() {
        let mut proof = Proof::new(false);
        assert_eq!(
            proof.allowance(),
            Allowance::of_level(1),
            "the program may be behind"
        );
        let allowed = look_from(&mut proof, 1, 5, |at| Seen {
            own_bytes: at * 4096,
            signs: at,
            ..Seen::default()
        });
        assert_eq!(allowed, Allowance::ALL);
        assert_eq!(proof.followed().pauses, 0);
    }

    #[test]
    fn a_program_that_goes_elsewhere_gets_no_reads_beside_its_own() {
        let mut proof = Proof::new(false);
        let elsewhere = |at| Seen {
            own_bytes: at * 4096,
            ..Seen::default()
        };
        assert_eq!(look_from(&mut proof, 1, 1, elsewhere), Allowance::NOTHING);
        assert_eq!(look_from(&mut proof, 2, 500, elsewhere), Allowance::NOTHING);
        let followed = proof.followed();
        assert_eq!((followed.pauses, followed.is_proven), (1, false));
    }

    #[test]
    fn a_proven_program_that_turns_off_is_left_within_a_miss_for_each_level() {
        for (signs, misses) in [(1, 2), (3, 4), (20, 6)] {
            let mut proof = Proof::new(false);
            look_from(&mut proof, 1, signs, |at| Seen {
                signs: at,
                ..Seen::default()
            });
            assert!(proof.followed().is_proven);
            let elsewhere = |at| Seen {
                own_bytes: at * 4096,
                signs,
                ..Seen::default()
            };
            let allowed = look_from(&mut proof, signs + 1, misses, elsewhere);
            assert_eq!(allowed, Allowance::NOTHING, "after {signs} signs");
            assert!(!proof.followed().is_proven);
            // One sign more isn't enough after that; two are.
            let back = |more| Seen {
                own_bytes: 1 << 30,
                signs: signs + more,
                at: ms(signs + 20),
                ..Seen::default()
            };
            assert_eq!(proof.look(back(1)), Allowance::NOTHING);
            assert_ne!(proof.look(back(2)), Allowance::NOTHING);
        }
    }

    #[test]
    fn looks_get_rare_in_a_pause() {
        let mut proof = Proof::new(false);
        let elsewhere = |at| Seen {
            own_bytes: at * 4096,
            ..Seen::default()
        };
        look_from(&mut proof, 1, 1, elsewhere);
        assert_eq!(proof.look_after(), LOOK_AFTER);
        look_from(&mut proof, 2, 800, elsewhere);
        assert_eq!(proof.look_after(), ms(100));
        look_from(&mut proof, 802, 60_000, elsewhere);
        assert_eq!(proof.look_after(), LOOK_AFTER_MAX);
    }

    #[test]
    fn what_programs_share_is_neither_sign_nor_miss() {
        for (in_doubt, reads) in [(false, 2), (true, 0)] {
            let mut proof = Proof::new(in_doubt);
            let shared = |at| Seen {
                own_bytes: at * 4096,
                shared: at,
                ..Seen::default()
            };
            assert_eq!(look_from(&mut proof, 1, 100, shared).reads, reads);
            assert_eq!(proof.followed(), Followed::default());
        }
    }

    #[test]
    fn use_of_fetched_pages_is_a_sign_for_a_proven_program() {
        let mut proof = Proof::new(false);
        let allowed = look_from(&mut proof, 1, 100, |at| Seen {
            own_bytes: at * 4096,
            signs: 1,
            used_pages: at,
            ..Seen::default()
        });
        assert_eq!(allowed, Allowance::ALL);
        assert_eq!(proof.followed().astray_misses, 0);
    }

    #[test]
    fn a_program_that_waits_for_the_replay_gives_it_all() {
        let mut proof = Proof::new(false);
        let waits_for_ours = |at: u64| Seen {
            own_bytes: 4096,
            signs: 1,
            slices: at.min(3),
            ..Seen::default()
        };
        assert_eq!(look_from(&mut proof, 1, 40, waits_for_ours), Allowance::ALL);
    }

    #[test]
    fn a_program_that_waits_for_a_processor_proves_nothing() {
        let mut proof = Proof::new(false);
        // It has begun as recorded, and reads something else each 100 ms. Meanwhile it is given a
        // processor now and then, for a little.
        look_from(&mut proof, 1, 2000, |at| Seen {
            own_bytes: 32768 * (at / 100),
            slices: at / 25,
            signs: 1,
            delayed: ms(at * 99 / 100),
            ..Seen::default()
        });
        assert_eq!(
            proof.allowance(),
            Allowance::NOTHING,
            "{:?}",
            proof.followed()
        );
    }

    #[test]
    fn a_program_that_waits_for_its_own_read_proves_nothing() {
        let mut proof = Proof::new(false);
        let waits = |at: u64| Seen {
            own_bytes: 4096 * (at / 40),
            slices: at / 40,
            signs: 1,
            ..Seen::default()
        };
        look_from(&mut proof, 40, 39, waits);
        let at_first = proof.allowance();
        assert_ne!(at_first, Allowance::ALL);
        // It goes on with its next read at once.
        let allowed = look_from(&mut proof, 80, 39, waits);
        assert!(allowed.reads < at_first.reads, "{allowed:?}");
        assert_eq!(
            look_from(&mut proof, 120, 40 * 8, waits),
            Allowance::NOTHING
        );
    }

    #[test]
    fn a_silent_program_without_proof_is_given_little() {
        for (in_doubt, level) in [(false, LEVEL_UNPROVEN_MAX), (true, 0)] {
            let mut proof = Proof::new(in_doubt);
            let silent = |_| Seen::default();
            let allowed = look_from(&mut proof, 1, 1000, silent);
            assert_eq!(allowed, Allowance::of_level(level));
        }
    }

    #[test]
    fn collisions_with_a_program_that_reads_now_and_then_get_rare() {
        let mut proof = Proof::new(false);
        // A read each 30 ms, none of the profile.
        look_from(&mut proof, 1, 10_000, |at| Seen {
            own_bytes: at / 30 * 4096,
            slices: at,
            ..Seen::default()
        });
        assert!(proof.followed().pauses <= 3, "{:?}", proof.followed());
    }

    #[test]
    fn doubts_ask_for_more_signs() {
        let mut proof = Proof::new(true);
        assert_eq!(proof.allowance(), Allowance::NOTHING);
        let signs = |n| Seen {
            at: ms(n),
            own_bytes: n * 4096,
            signs: n,
            ..Seen::default()
        };
        for n in 1..SIGNS_IN_DOUBT {
            assert_eq!(proof.look(signs(n)), Allowance::NOTHING, "{n} signs");
        }
        assert_ne!(proof.look(signs(SIGNS_IN_DOUBT)), Allowance::NOTHING);
    }

    proptest! {
        /// Whatever is seen: without a sign nothing is under way beside more than a few reads of
        /// the program's own.
        #[test]
        fn without_signs_few_reads_meet_ours(
            steps in prop::collection::vec((1u64..50, 0u64..3), 1..400),
            in_doubt in any::<bool>(),
        ) {
            let mut proof = Proof::new(in_doubt);
            let mut seen = Seen::default();
            let mut met = 0;
            for (wait_ms, reads) in steps {
                seen.at += ms(wait_ms);
                seen.own_bytes += reads * 4096;
                seen.slices += 1;
                met += u64::from(reads > 0 && proof.allowance() != Allowance::NOTHING);
                let allowed = proof.look(seen);
                prop_assert!(allowed.reads <= 4);
            }
            // 10 ms doubled ten times is QUIET_MAX; nothing here lasts as long.
            prop_assert!(met <= 11, "{}", met);
        }
    }
}
