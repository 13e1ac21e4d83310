// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orders of traversals, and reasons for their end, in words.

use foreread_watch::order::Order;
use foreread_watch::walk::Why;

/// As an adverb: a program reads a tree so.
pub fn order_words(order: Order) -> &'static str {
    match order {
        Order::Listed => "in the order in which they are listed",
        Order::Name => "in the order of names",
        Order::Inode => "in the order of inode numbers",
    }
}

/// As a clause: a traversal ends because of this.
pub fn why_words(why: Why) -> &'static str {
    match why {
        Why::Left => "the program reads elsewhere",
        Why::Unused => "what was fetched was not what the program read",
        Why::Idle => "the program has read nothing for a while",
        Why::Exited => "the program has ended",
        Why::Memory => "memory runs short",
        Why::Stopped => "watching was stopped, or is a dry run",
        Why::NotPermitted => "it isn't known what the program may read itself",
        Why::Throttled => "the I/O of the program's cgroup is limited",
        Why::UserBudget => "the memory of watch for its user is used up",
        Why::TotalBudget => "the memory of watch is used up",
    }
}
