//! `wayside chain`: which switches keep which groups of keys.

use super::query::ask_who_knows;
use super::text::{say, table};
use crate::answers::{Chains, Changed, Query};
use crate::cli::{Chain, ChainSwitchArgs, EndpointArgs, Output};
use crate::failure::Failure;

pub fn chain(command: &Chain) -> Result<(), Failure> {
    match command {
        Chain::Status(args) => {
            let (line, chains) = ask_who_knows::<Chains>(args.endpoint.of_keys(), &Query::Chains)?;
            match args.output {
                Output::Json => say(&line),
                Output::Text => say(&text(&chains)),
            }
            Ok(())
        }
        Chain::Add(args) => share(args, 1),
        Chain::Remove(args) => share(args, 0),
        Chain::Recover(args) => recover(&args.endpoint),
    }
}

fn share(args: &ChainSwitchArgs, share: u32) -> Result<(), Failure> {
    let query = Query::Share { switch: args.switch.to_string(), share };
    ask_who_knows::<Changed>(args.endpoint.of_keys(), &query)?;
    say(&match share {
        0 => format!("{} gives its groups to others; `wayside chain status` shows when it has none", args.switch),
        _ => format!("{} takes its share of the groups", args.switch),
    });
    Ok(())
}

fn recover(endpoint: &EndpointArgs) -> Result<(), Failure> {
    let (_, Changed { changed }) = ask_who_knows::<Changed>(endpoint.of_keys(), &Query::Recover)?;
    say(&match changed {
        0 => "no group is lost, or no switch is up to keep it".into(),
        1 => "one group begins anew, empty".into(),
        more => format!("{more} groups begin anew, empty"),
    });
    Ok(())
}

/// The switches, then the groups: one line for all of a namespace that have the same chain and are equally far.
fn text(chains: &Chains) -> String {
    let heading = ["SWITCH", "SHARE", "STATE", "GROUPS"].map(String::from).to_vec();
    let switches = chains.switches.iter().map(|switch| {
        let groups = chains.groups.iter().filter(|group| group.chain.contains(&switch.address)).count();
        let state = if switch.up { "up" } else { "silent" };
        vec![switch.address.clone(), switch.share.to_string(), state.into(), groups.to_string()]
    });
    let mut text = table(&std::iter::once(heading).chain(switches).collect::<Vec<_>>());
    text.push('\n');
    let mut lines: Vec<(String, String, String, Vec<u16>)> = Vec::new();
    for group in &chains.groups {
        let state = match &group.joiner {
            Some(joiner) => format!("{}: {joiner} joins", group.state),
            None => group.state.clone(),
        };
        let chain = if group.chain.is_empty() { "none yet".into() } else { group.chain.join(" > ") };
        match lines.iter_mut().find(|line| line.0 == group.namespace && line.1 == chain && line.2 == state) {
            Some(line) => line.3.push(group.group),
            None => lines.push((group.namespace.clone(), chain, state, vec![group.group])),
        }
    }
    let heading = ["NAMESPACE", "GROUPS", "HEAD > ... > TAIL", "STATE"].map(String::from).to_vec();
    let lines =
        lines.into_iter().map(|(namespace, chain, state, groups)| vec![namespace, ranges(&groups), chain, state]);
    text.push_str(&table(&std::iter::once(heading).chain(lines).collect::<Vec<_>>()));
    text
}

/// Rising numbers, as `0-3,7`; of very many, the first and how many there are: `-o json` has all.
fn ranges(numbers: &[u16]) -> String {
    const MOST: usize = 40;
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let run = |run: &[u16]| match run {
        [only] => only.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    };
    let all = runs.map(run).collect::<Vec<_>>().join(",");
    match all.get(..MOST).and_then(|some| some.rfind(',')) {
        Some(end) if all.len() > MOST => format!("{},... ({} groups)", &all[..end], numbers.len()),
        _ => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::{ChainGroup, ChainSwitch};

    #[test]
    fn groups_of_one_chain_share_a_line() {
        let switch = |address: &str, up| ChainSwitch { address: address.into(), share: 1, up };
        let group = |group, chain: &[&str], joiner: Option<&str>| ChainGroup {
            namespace: "default".into(),
            group,
            epoch: 3,
            state: if joiner.is_some() { "copying".into() } else { "serving".into() },
            chain: chain.iter().map(|address| (*address).into()).collect(),
            joiner: joiner.map(String::from),
        };
        let groups = vec![
            group(0, &["a", "b"], None),
            group(1, &["a", "b"], None),
            group(2, &["b"], Some("a")),
            group(4, &["a", "b"], None),
        ];
        let chains = Chains { switches: vec![switch("a", true), switch("b", false)], groups };
        let expected = "SWITCH  SHARE  STATE   GROUPS\n\
                        a       1      up      3\n\
                        b       1      silent  4\n\
                        \n\
                        NAMESPACE  GROUPS  HEAD > ... > TAIL  STATE\n\
                        default    0-1,4   a > b              serving\n\
                        default    2       b                  copying: a joins\n";
        assert_eq!(text(&chains), expected);
    }

    #[test]
    fn of_thousands_of_groups_the_first_are_shown() {
        assert_eq!(ranges(&[0, 1, 2, 5]), "0-2,5");
        let scattered: Vec<u16> = (0..1_000).map(|number| number * 3).collect();
        assert_eq!(ranges(&scattered), "0,3,6,9,12,15,18,21,24,27,30,33,36,39,... (1000 groups)");
        let whole: Vec<u16> = (0..4_096).collect();
        assert_eq!(ranges(&whole), "0-4095");
    }
}
