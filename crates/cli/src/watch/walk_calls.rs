// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of walks, as lines of the log of `watch` have them.

use anyhow::{Context, Result, bail};
use foreread_watch::order::Order;
use foreread_watch::walk::{Met, Why};
use foreread_watch::walk_call::{Above, Answer, Lists, WalkCall, WalkCalled};
use serde_json::{Value, json};

use super::fields::{all_escaped, escaped, is, number, path, paths, small, text, unescaped, word};
use super::texts::{list_of, list_text, numbers_of, numbers_text};

const WALK: &str = "walk";

/// What the log says of a call of a walk.
pub fn document(call: &WalkCall) -> Value {
    let mut document = match &call.what {
        WalkCalled::Begin {
            top,
            order,
            budget_bytes,
            reads,
        } => json!({
            "call": "begin",
            "top": escaped(top),
            "order": order.name(),
            "budget_bytes": budget_bytes,
            "reads": reads,
        }),
        WalkCalled::Decide(answer) => of_answer(answer),
        WalkCalled::Listed { tried, lists } => json!({
            "call": "listed",
            "tried": all_escaped(tried),
            "lists": lists
                .iter()
                .map(|(path, entries)| (escaped(path), list_text(entries).into()))
                .collect::<serde_json::Map<_, Value>>(),
        }),
        WalkCalled::Fetching { files } => json!({ "call": "fetching", "files": files }),
        WalkCalled::Fetched { files, pages } => {
            json!({ "call": "fetched", "files": files, "pages": pages })
        }
        WalkCalled::StoppedFetching { files, pages } => {
            json!({ "call": "stopped_fetching", "files": files, "pages": pages })
        }
        WalkCalled::Hit { inode, met } => {
            json!({ "call": "hit", "inode": inode, "met": met_name(*met) })
        }
        WalkCalled::Missed {
            directory,
            inode,
            met,
        } => json!({
            "call": "missed",
            "directory": escaped(directory),
            "inode": inode,
            "met": met_name(*met),
        }),
        WalkCalled::Looked {
            inode,
            is_late,
            met,
        } => json!({
            "call": "looked",
            "inode": inode,
            "late": is_late,
            "met": met_name(*met),
        }),
        WalkCalled::WaitsIn { directory, met } => json!({
            "call": "waits",
            "directory": escaped(directory),
            "met": met_name(*met),
        }),
        WalkCalled::Jumped(above) => json!({ "call": "jumped", "above": of_above(above) }),
        WalkCalled::Rise { directory, above } => json!({
            "call": "rise",
            "directory": escaped(directory),
            "above": above.as_ref().map(of_above),
        }),
        WalkCalled::Raise { top, order } => {
            json!({ "call": "raise", "top": escaped(top), "order": order.name() })
        }
        WalkCalled::End(why) => json!({ "call": "end", "why": why.name() }),
    };
    document["what"] = WALK.into();
    document["walk"] = call.walk.into();
    document["number"] = call.number.into();
    document
}

fn of_above((above, names): &Above) -> Value {
    json!({ "top": escaped(above), "names": all_escaped(names) })
}

fn of_answer(answer: &Answer) -> Value {
    match answer {
        Answer::List(directories) => json!({
            "call": "decide",
            "decision": "list",
            "directories": all_escaped(directories),
        }),
        Answer::Fetch {
            inodes,
            names_hash,
            budget_bytes,
        } => json!({
            "call": "decide",
            "decision": "fetch",
            "inodes": numbers_text(inodes),
            "names_hash": names_hash,
            "budget_bytes": budget_bytes,
        }),
        Answer::Wait => json!({ "call": "decide", "decision": "wait" }),
        Answer::End(why) => json!({ "call": "decide", "decision": "end", "why": why.name() }),
    }
}

const METS: [Met; 3] = [Met::Known, Met::Below, Met::Outside];

fn met_name(met: Met) -> &'static str {
    match met {
        Met::Known => "known",
        Met::Below => "below",
        Met::Outside => "outside",
    }
}

/// The call of a walk that a line has, and of whom; `None` where it is about something else.
///
/// # Errors
/// It says less than a call needs, or what can't be.
pub fn parse(line: &Value) -> Result<Option<(u32, WalkCall)>> {
    if text(line, "what")? != WALK {
        return Ok(None);
    }
    let what = match text(line, "call")? {
        "begin" => WalkCalled::Begin {
            top: path(line, "top")?,
            order: order(line)?,
            budget_bytes: number(line, "budget_bytes")?,
            reads: is(line, "reads")?,
        },
        "decide" => WalkCalled::Decide(answer(line)?),
        "listed" => WalkCalled::Listed {
            tried: paths(line, "tried")?,
            lists: lists(line)?,
        },
        "fetching" => WalkCalled::Fetching {
            files: small(line, "files")? as usize,
        },
        "fetched" => WalkCalled::Fetched {
            files: small(line, "files")?.into(),
            pages: small(line, "pages")?.into(),
        },
        "stopped_fetching" => WalkCalled::StoppedFetching {
            files: small(line, "files")? as usize,
            pages: small(line, "pages")?.into(),
        },
        "hit" => WalkCalled::Hit {
            inode: number(line, "inode")?,
            met: met(line)?,
        },
        "missed" => WalkCalled::Missed {
            directory: path(line, "directory")?,
            inode: number(line, "inode")?,
            met: met(line)?,
        },
        "looked" => WalkCalled::Looked {
            inode: number(line, "inode")?,
            is_late: is(line, "late")?,
            met: met(line)?,
        },
        "waits" => WalkCalled::WaitsIn {
            directory: path(line, "directory")?,
            met: met(line)?,
        },
        "jumped" => WalkCalled::Jumped(above(&line["above"])?),
        "rise" => WalkCalled::Rise {
            directory: path(line, "directory")?,
            above: match &line["above"] {
                Value::Null => None,
                of => Some(above(of)?),
            },
        },
        "raise" => WalkCalled::Raise {
            top: path(line, "top")?,
            order: order(line)?,
        },
        "end" => WalkCalled::End(why(line)?),
        other => bail!("a walk has no call \"{other}\""),
    };
    let call = WalkCall {
        walk: number(line, "walk")?,
        number: number(line, "number")?,
        what,
    };
    Ok(Some((small(line, "process")?, call)))
}

fn above(of: &Value) -> Result<Above> {
    let names = paths(of, "names").context("of what is \"above\"")?;
    let names = names.try_into().ok();
    let names = names.context("\"names\" of what is \"above\" are not two")?;
    Ok((path(of, "top")?, names))
}

fn answer(line: &Value) -> Result<Answer> {
    Ok(match text(line, "decision")? {
        "list" => Answer::List(paths(line, "directories")?),
        "fetch" => Answer::Fetch {
            inodes: numbers_of(text(line, "inodes")?)
                .context("\"inodes\" are not numbers and ranges of them")?,
            names_hash: number(line, "names_hash")?,
            budget_bytes: number(line, "budget_bytes")?,
        },
        "wait" => Answer::Wait,
        "end" => Answer::End(why(line)?),
        other => bail!("a walk has no decision \"{other}\""),
    })
}

fn lists(line: &Value) -> Result<Lists> {
    let lists = line["lists"].as_object();
    let lists = lists.context("it has no \"lists\", or those are no lists by path")?;
    let list = |(path, list): (&String, &Value)| {
        let entries = list.as_str().and_then(list_of);
        let path = unescaped(path);
        path.zip(entries).with_context(|| {
            "\"lists\" has what is no directory, or one with two entries of a name".to_owned()
        })
    };
    lists.iter().map(list).collect()
}

fn order(line: &Value) -> Result<Order> {
    word(line, "order", &Order::ALL, Order::name)
}

fn why(line: &Value) -> Result<Why> {
    word(line, "why", &Why::ALL, Why::name)
}

fn met(line: &Value) -> Result<Met> {
    word(line, "met", &METS, met_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_watch::order::Entry;
    use proptest::prelude::*;

    fn any_path() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..12)
    }

    fn any_paths() -> impl Strategy<Value = Vec<Vec<u8>>> {
        prop::collection::vec(any_path(), 0..5)
    }

    fn any_above() -> impl Strategy<Value = Above> {
        (any_path(), any_path(), any_path()).prop_map(|(top, old, new)| (top, [old, new]))
    }

    fn any_order() -> impl Strategy<Value = Order> {
        prop::sample::select(&Order::ALL[..])
    }

    fn any_why() -> impl Strategy<Value = Why> {
        prop::sample::select(&Why::ALL[..])
    }

    fn any_met() -> impl Strategy<Value = Met> {
        prop::sample::select(&METS[..])
    }

    fn any_lists() -> impl Strategy<Value = Lists> {
        let name = prop::collection::vec(1u8..b'/', 1..9);
        let entries = prop::collection::btree_map(name, (any::<u64>(), any::<bool>()), 0..9);
        let entries = entries.prop_map(|entries| {
            let entry = |(name, (inode, is_directory))| Entry {
                name,
                inode,
                is_directory,
            };
            entries.into_iter().map(entry).collect()
        });
        prop::collection::btree_map(any_path(), entries, 0..4)
    }

    fn any_answer() -> impl Strategy<Value = Answer> {
        let fetch = (
            prop::collection::vec(any::<u64>(), 0..9),
            any::<u64>(),
            any::<u64>(),
        );
        prop_oneof![
            any_paths().prop_map(Answer::List),
            fetch.prop_map(|(inodes, names_hash, budget_bytes)| Answer::Fetch {
                inodes,
                names_hash,
                budget_bytes,
            }),
            Just(Answer::Wait),
            any_why().prop_map(Answer::End),
        ]
    }

    fn any_called() -> impl Strategy<Value = WalkCalled> {
        let begin = (any_path(), any_order(), any::<u64>(), any::<bool>());
        let fetched = (any::<u32>(), any::<u32>());
        let missed = (any_path(), any::<u64>(), any_met());
        let looked = (any::<u64>(), any::<bool>(), any_met());
        prop_oneof![
            begin.prop_map(|(top, order, budget_bytes, reads)| WalkCalled::Begin {
                top,
                order,
                budget_bytes,
                reads,
            }),
            any_answer().prop_map(WalkCalled::Decide),
            (any_paths(), any_lists())
                .prop_map(|(tried, lists)| WalkCalled::Listed { tried, lists }),
            any::<u32>().prop_map(|files| WalkCalled::Fetching {
                files: files as usize
            }),
            fetched.prop_map(|(files, pages)| WalkCalled::Fetched {
                files: files.into(),
                pages: pages.into(),
            }),
            fetched.prop_map(|(files, pages)| WalkCalled::StoppedFetching {
                files: files as usize,
                pages: pages.into(),
            }),
            (any::<u64>(), any_met()).prop_map(|(inode, met)| WalkCalled::Hit { inode, met }),
            missed.prop_map(|(directory, inode, met)| WalkCalled::Missed {
                directory,
                inode,
                met,
            }),
            looked.prop_map(|(inode, is_late, met)| WalkCalled::Looked {
                inode,
                is_late,
                met,
            }),
            (any_path(), any_met())
                .prop_map(|(directory, met)| WalkCalled::WaitsIn { directory, met }),
            any_above().prop_map(WalkCalled::Jumped),
            (any_path(), prop::option::of(any_above()))
                .prop_map(|(directory, above)| WalkCalled::Rise { directory, above }),
            (any_path(), any_order()).prop_map(|(top, order)| WalkCalled::Raise { top, order }),
            any_why().prop_map(WalkCalled::End),
        ]
    }

    fn any_call() -> impl Strategy<Value = WalkCall> {
        let call = (any::<u64>(), any::<u64>(), any_called());
        call.prop_map(|(walk, number, what)| WalkCall { walk, number, what })
    }

    fn line(call: &WalkCall) -> Value {
        let mut document = document(call);
        document["process"] = 4.into();
        // As it is when it has been a line.
        serde_json::from_str(&document.to_string()).unwrap()
    }

    proptest! {
        #[test]
        fn lines_are_calls_again(call in any_call()) {
            prop_assert_eq!(parse(&line(&call)).unwrap(), Some((4, call)));
        }

        #[test]
        fn what_is_wrong_with_a_line_is_said(
            call in any_call(), at in any::<prop::sample::Index>(), wrong in 0usize..4
        ) {
            let mut line = line(&call);
            let names: Vec<String> = line.as_object().unwrap().keys().cloned().collect();
            let name = at.get(&names).as_str();
            // Nothing is what there may be.
            prop_assume!(name != "above" || wrong > 0);
            line[name] = [Value::Null, json!([[]]), json!("%"), json!(-1)][wrong].clone();
            match parse(&line) {
                Ok(parsed) => prop_assert_eq!((name, parsed), ("what", None)),
                Err(error) => prop_assert!(format!("{error:#}").contains(name), "{error:#}"),
            }
        }
    }
}
