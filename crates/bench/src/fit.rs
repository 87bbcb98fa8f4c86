//! How something grows: the power of its size, by least squares over logarithms.

/// Of `points`, size and what it takes, both above 0. None: there are not two sizes.
pub(crate) fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let (x, y) = logs.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let spread = logs.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>();
    let common = logs.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>();
    (spread > 0.0 && common.is_finite()).then(|| common / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exponent_is_that_of_the_power_and_of_one_size_there_is_none() {
        let of = |power: f64| [1.0f64, 10.0, 1_000.0].map(|x| (x, 7.0 * x.powf(power)));
        for power in [0.0, 0.5, 1.0, 2.0] {
            assert!((exponent(&of(power)).unwrap() - power).abs() < 1e-9);
        }
        assert_eq!((exponent(&[]), exponent(&[(3.0, 1.0), (3.0, 2.0)])), (None, None));
    }
}
