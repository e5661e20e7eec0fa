//! What an operator decides about names, labels and histograms: Prometheus' `otlp:` section.

/// How metric and label names become those of Prometheus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Letters, digits and underscores; units and `_total` are appended.
    #[default]
    UnderscoreEscapingWithSuffixes,
    UnderscoreEscapingWithoutSuffixes,
    /// Names stay as they are; units and `_total` are appended.
    NoUtf8EscapingWithSuffixes,
    NoTranslation,
}

impl Strategy {
    /// Whether characters that were not allowed in names before Prometheus 3 become underscores.
    pub(super) fn escapes(self) -> bool {
        matches!(
            self,
            Self::UnderscoreEscapingWithSuffixes | Self::UnderscoreEscapingWithoutSuffixes
        )
    }

    pub(super) fn adds_suffixes(self) -> bool {
        matches!(
            self,
            Self::UnderscoreEscapingWithSuffixes | Self::NoUtf8EscapingWithSuffixes
        )
    }
}

/// What an exponential histogram becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exponential {
    /// A native histogram.
    #[default]
    Native,
    /// `_bucket` series whose bounds are powers of two, the same for every point.
    Classic,
}

#[derive(Clone, Debug)]
pub struct Translation {
    pub strategy: Strategy,
    /// Resource attributes that become labels of every series.
    pub promote_resource_attributes: Vec<String>,
    /// All of them do, except for those in `ignore_resource_attributes`.
    pub promote_all_resource_attributes: bool,
    pub ignore_resource_attributes: Vec<String>,
    /// Whether `target_info` repeats what `job` and `instance` were made of.
    pub keep_identifying_resource_attributes: bool,
    /// Whether name, version, schema and attributes of the scope become labels `otel_scope_…`.
    pub promote_scope_metadata: bool,
    /// Whether histograms with explicit bounds become native ones with custom buckets.
    pub convert_histograms_to_nhcb: bool,
    pub exponential: Exponential,
    /// Whether a label name that begins with one underscore gets `key` before it.
    pub label_name_underscore_sanitization: bool,
    /// Whether several underscores in a row stay several.
    pub label_name_preserve_multiple_underscores: bool,
}

impl Default for Translation {
    /// The defaults of Prometheus.
    fn default() -> Self {
        Self {
            strategy: Strategy::default(),
            promote_resource_attributes: Vec::new(),
            promote_all_resource_attributes: false,
            ignore_resource_attributes: Vec::new(),
            keep_identifying_resource_attributes: false,
            promote_scope_metadata: false,
            convert_histograms_to_nhcb: false,
            exponential: Exponential::default(),
            label_name_underscore_sanitization: true,
            label_name_preserve_multiple_underscores: true,
        }
    }
}

impl Translation {
    pub(super) fn promotes(&self, attribute: &str) -> bool {
        let listed = |list: &[String]| list.iter().any(|name| name == attribute);
        if self.promote_all_resource_attributes {
            !listed(&self.ignore_resource_attributes)
        } else {
            listed(&self.promote_resource_attributes)
        }
    }
}
