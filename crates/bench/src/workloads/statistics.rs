//! Whether counts are of a distribution.

/// Pearson's statistic of what was counted against the share that each class should have.
pub(super) fn chi_square(counted: &[u64], shares: &[f64]) -> f64 {
    assert_eq!(counted.len(), shares.len());
    let (all, sum) = (counted.iter().sum::<u64>() as f64, shares.iter().sum::<f64>());
    let each = counted.iter().zip(shares).map(|(&count, share)| {
        let expected = all * share / sum;
        assert!(expected >= 5.0, "a class of {expected} is too small to be tested");
        (count as f64 - expected).powi(2) / expected
    });
    each.sum()
}

/// Whether these counts may be of these shares: beyond the limit lie 3 of 100,000 samples (4 standard deviations, by
/// Wilson and Hilferty's approximation), so a fixed seed that passes does so for good.
pub(super) fn fits(counted: &[u64], shares: &[f64]) -> bool {
    let degrees = (counted.len() - 1) as f64;
    let part = 2.0 / (9.0 * degrees);
    chi_square(counted, shares) <= degrees * (1.0 - part + 4.0 * part.sqrt()).powi(3)
}

/// Shares of Zipf's law over these ranks, from 1 on, gathered: the first hundred one by one, then up to each of 10 %
/// more. With each class its last rank.
pub(super) fn zipf_classes(ranks: u64, exponent: f64) -> Vec<(u64, f64)> {
    let mut classes = Vec::new();
    let (mut end, mut share) = (1, 0.0);
    for rank in 1..=ranks {
        share += (rank as f64).powf(-exponent);
        if rank == end || rank == ranks {
            classes.push((rank, share));
            (end, share) = (if end < 100 { end + 1 } else { end + end / 10 }, 0.0);
        }
    }
    classes
}

/// How many of these ranks, from 1 on, fall into each class.
pub(super) fn count_in(classes: &[(u64, f64)], ranks: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut counts = vec![0; classes.len()];
    for rank in ranks {
        counts[classes.partition_point(|(last, _)| *last < rank)] += 1;
    }
    counts
}

#[test]
fn a_loaded_die_is_noticed() {
    let fair = [1.0; 6];
    assert!(fits(&[1_010, 990, 1_005, 985, 1_020, 990], &fair));
    assert!(!fits(&[1_200, 960, 960, 960, 960, 960], &fair));
}
