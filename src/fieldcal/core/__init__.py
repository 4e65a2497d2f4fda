"""The mathematics, on numpy and scipy alone: no frames, files, logging or global state.

A reader of the paper (Ziegler and Czyż, *Unsupervised Recalibration*) finds its nouns as files.

======== ============== ======== ==========================================================================
paper    here           shape    meaning
======== ============== ======== ==========================================================================
``A``    a partition             sends each prediction to one of ``m`` bins
``M_A``  ``M``          (K, m)   ``M[i, j] = P_lab(C in A_j given Y = i)``; rows sum to one
–        ``F``          (K, m)   the labelled counts behind ``M``; what is stored, always
``v_A``  ``V``          (G, m)   field counts, one row per group
``p_y``  ``p``          (G, K)   class prevalences in the field, one row per group
P_dev(Y) ``p_lab``      (K,)     class prevalences in the lab
–        ``A``          (K, m)   ``F`` plus smoothing: the Dirichlet parameters of M's own posterior
–        ``S``                   draws of ``M``; draw ``s`` is the same for all groups
–        ``α``          (S, K)   Dirichlet parameters of the prior of ``p``, one row per draw: ``alpha``
–        ``κ``, ``μ``   –, (K,)  strength and centre of the prior that groups share, ``α = κ μ``
–        ``σ``, ``τ``            trust in the shift of the whole field, and in the differences between groups
–        ``θ``                   ``arcsin √p`` of the second of two classes, where cells of equal width are fair
======== ============== ======== ==========================================================================

In `ordered`, ``σ`` is the size of a path. The whole default model is on two pages in `docs/explanation/model.md`.

The consistency axiom (given the class, predictions are distributed in the field as in the lab) makes
``V[g] ~ Multinomial(n_g, p[g] @ M)``.

Differs from the paper: its ``M_A · p = v`` needs ``M`` transposed (here ``p @ M``); the prior of its
combined-loss theorem is ``∝ exp(−L_reg)``; the multinomial is *maximised* at ``k / m``; and the multinomial
coefficient is over the sample size.
"""
