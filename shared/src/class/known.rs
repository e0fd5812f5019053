//! Counts of the graphs of classes that others have published.

use super::Class;

/// A sequence of counts, from order 1 on.
#[derive(Debug)]
pub struct KnownSequence {
    /// What is counted, and its number in the OEIS.
    pub what: &'static str,
    /// Whether labelled graphs are counted, that is, each class n!/|Aut| times.
    pub labelled: bool,
    counts: &'static [u128],
}

impl KnownSequence {
    /// The count of an order, if it is known here.
    pub fn count(&self, order: usize) -> Option<u128> {
        self.counts.get(order.checked_sub(1)?).copied()
    }
}

/// Those that count the graphs of a class.
pub(super) fn sequences(class: Class) -> &'static [KnownSequence] {
    match class {
        Class::Girth(4) => &[KnownSequence {
            what: "triangle-free graphs (OEIS A006785)",
            labelled: false,
            counts: &[1, 2, 3, 7, 14, 38, 107, 410, 1897, 12172, 105071, 1262180, 20797002],
        }],
        Class::Girth(5) => &[KnownSequence {
            what: "graphs of girth at least 5 (OEIS A006787)",
            labelled: false,
            counts: &[1, 2, 3, 6, 11, 23, 48, 114, 293, 869, 2963, 12066, 58933, 347498, 2455693],
        }],
        Class::SquareFree => &[KnownSequence {
            what: "square-free graphs (OEIS A006786)",
            labelled: false,
            counts: &[1, 2, 4, 8, 18, 44, 117, 351, 1230, 5069, 25181, 152045, 1116403, 9899865],
        }],
        Class::Bipartite => &[
            KnownSequence {
                what: "bipartite graphs (OEIS A033995)",
                labelled: false,
                counts: &[1, 2, 3, 7, 13, 35, 88, 303, 1119, 5479, 32303, 251135, 2527712],
            },
            KnownSequence {
                what: "labelled bipartite graphs (OEIS A047864)",
                labelled: true,
                counts: &[
                    1,
                    2,
                    7,
                    41,
                    376,
                    5177,
                    103237,
                    2922446,
                    116011231,
                    6433447397,
                    498234407452,
                    54007795331921,
                    8213123246906761,
                ],
            },
        ],
        Class::Planar => &[
            KnownSequence {
                what: "planar graphs (OEIS A005470)",
                labelled: false,
                counts: &[1, 2, 4, 11, 33, 142, 822, 6966, 79853, 1140916, 18681008, 333312451],
            },
            KnownSequence {
                what: "labelled planar graphs (OEIS A066537)",
                labelled: true,
                counts: &[
                    1,
                    2,
                    8,
                    64,
                    1023,
                    32071,
                    1823707,
                    163947848,
                    20402420291,
                    3209997749284,
                    604611323732576,
                    131861300077834966,
                ],
            },
        ],
        Class::Outerplanar => &[KnownSequence {
            what: "labelled outerplanar graphs (OEIS A098000)",
            labelled: true,
            counts: &[
                1,
                2,
                8,
                63,
                893,
                19714,
                597510,
                22903403,
                1056115331,
                56744710974,
                3475626211316,
                238818544070905,
            ],
        }],
        Class::Forest => &[
            KnownSequence {
                what: "forests (OEIS A005195)",
                labelled: false,
                counts: &[
                    1, 2, 3, 6, 10, 20, 37, 76, 153, 329, 710, 1601, 3658, 8599, 20514, 49905,
                    122963, 307199, 775529, 1977878,
                ],
            },
            KnownSequence {
                what: "labelled forests (OEIS A001858)",
                labelled: true,
                counts: &[
                    1,
                    2,
                    7,
                    38,
                    291,
                    2932,
                    36961,
                    561948,
                    10026505,
                    205608536,
                    4767440679,
                    123373203208,
                    3525630110107,
                    110284283006640,
                    3748357699560961,
                    137557910094840848,
                    5421179050350334929,
                    228359487335194570528,
                    10239206473040881277575,
                    486909744862576654283616,
                ],
            },
        ],
        Class::LinearForest => &[
            KnownSequence {
                what: "linear forests, that is partitions (OEIS A000041)",
                labelled: false,
                counts: &[
                    1, 2, 3, 5, 7, 11, 15, 22, 30, 42, 56, 77, 101, 135, 176, 231, 297, 385, 490,
                    627,
                ],
            },
            KnownSequence {
                what: "labelled linear forests (OEIS A011800)",
                labelled: true,
                counts: &[
                    1,
                    2,
                    7,
                    34,
                    206,
                    1486,
                    12412,
                    117692,
                    1248004,
                    14625856,
                    187638716,
                    2614602112,
                    39310384192,
                    634148436104,
                    10923398137576,
                    200069534481616,
                    3882002527006352,
                    79535575126745632,
                    1715658099715217584,
                    38862145700256398816,
                ],
            },
        ],
        _ => &[],
    }
}
