"""Operators that a stored graph may use. What is not in this table is not called, whoever wrote the graph.

A name allows all overloads and the in-place form (`relu` stands for `relu.default`, `relu_.default` …). Missing on purpose: what
touches files (`from_file`, `save`), memory without checks (`set_`, `resize_`, `_unsafe_*`, packed and quantized weights),
other devices' internals, and printing. Kernels are operators of their own (graph_kernels.py).
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import torch
from torch._ops import OpOverload

from laminar.core.errors import LaminarError
from laminar.model.graph_kernels import kernel_called

_NAMES: Final = """
    _adaptive_avg_pool2d _adaptive_avg_pool3d _embedding_bag _local_scalar_dense _log_softmax _native_batch_norm_legit
    _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _scaled_dot_product_attention_math
    _scaled_dot_product_flash_attention_for_cpu _shape_as_tensor _softmax _to_copy _unique2 _upsample_bicubic2d_aa
    _upsample_bilinear2d_aa _weight_norm _weight_norm_interface abs absolute acos acosh adaptive_avg_pool1d adaptive_avg_pool2d
    adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d add addbmm addcdiv addcmul addmm addmv addr
    adjoint affine_grid_generator alias all allclose alpha_dropout amax amin aminmax angle any arange arccos arccosh arcsin arcsinh
    arctan arctan2 arctanh argmax argmin argsort argwhere as_strided asin asinh atan atan2 atanh atleast_1d atleast_2d atleast_3d
    avg_pool1d avg_pool2d avg_pool3d baddbmm bartlett_window batch_norm bernoulli bilinear binary_cross_entropy
    binary_cross_entropy_with_logits bincount binomial bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
    bitwise_xor blackman_window block_diag bmm broadcast_tensors broadcast_to bucketize cartesian_prod cat cauchy cdist ceil celu
    chain_matmul channel_shuffle cholesky cholesky_inverse cholesky_solve chunk clamp clamp_max clamp_min clip clone col2im
    column_stack combinations complex concat concatenate conj conj_physical constant_pad_nd contiguous conv1d conv2d conv3d
    conv_depthwise3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution copy copysign corrcoef cos cosh
    cosine_embedding_loss cosine_similarity count_nonzero cov cross cross_entropy_loss cummax cummin cumprod cumsum
    cumulative_trapezoid deg2rad det detach diag diag_embed diagflat diagonal diagonal_scatter diff digamma dist div divide dot
    dropout dsplit dstack einsum elu embedding embedding_bag empty empty_like empty_permuted eq equal erf erfc erfinv exp exp2 expand
    expand_as expm1 exponential eye fake_quantize_per_channel_affine fake_quantize_per_tensor_affine feature_alpha_dropout
    feature_dropout fft_fft fft_fft2 fft_fftfreq fft_fftn fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn
    fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftfreq fft_rfftn fill
    fill_diagonal fix flatten flip fliplr flipud float_power floor floor_divide fmax fmin fmod frac fractional_max_pool2d
    fractional_max_pool3d frexp frobenius_norm full full_like gather gcd ge gelu geometric ger glu greater greater_equal grid_sampler
    grid_sampler_2d grid_sampler_3d group_norm gru gru_cell gt hamming_window hann_window hardshrink hardsigmoid hardswish hardtanh
    heaviside hinge_embedding_loss histc hsplit hstack huber_loss hypot i0 igamma igammac im2col imag index index_add index_copy
    index_fill index_put index_reduce index_select inner instance_norm inverse is_nonzero is_same_size isclose isfinite isin isinf
    isnan isneginf isposinf isreal istft item kaiser_window kl_div kron kthvalue l1_loss layer_norm lcm ldexp le leaky_relu lerp less
    less_equal lgamma lift lift_fresh lift_fresh_copy linalg_cholesky linalg_cholesky_ex linalg_cond linalg_cross linalg_det
    linalg_diagonal linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_householder_product linalg_inv linalg_inv_ex
    linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve linalg_matmul linalg_matrix_exp linalg_matrix_norm
    linalg_matrix_power linalg_matrix_rank linalg_multi_dot linalg_norm linalg_pinv linalg_qr linalg_slogdet linalg_solve
    linalg_solve_ex linalg_solve_triangular linalg_svd linalg_svdvals linalg_vander linalg_vecdot linalg_vector_norm linear linspace
    log log10 log1p log2 log_normal log_sigmoid log_sigmoid_forward log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and
    logical_not logical_or logical_xor logit logspace logsumexp lstm lstm_cell lt mH mT margin_ranking_loss masked_fill masked_scatter
    masked_select matmul matrix_H matrix_exp matrix_power max max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices
    max_pool3d max_pool3d_with_indices max_unpool2d max_unpool3d maximum mean median meshgrid min minimum mish mm mode moveaxis
    movedim mse_loss msort mul multi_margin_loss multilabel_margin_loss multinomial multiply mv mvlgamma nan_to_num nanmean nanmedian
    nanquantile nansum narrow native_batch_norm native_channel_shuffle native_dropout native_group_norm native_layer_norm native_norm
    ne neg negative new_empty new_full new_ones new_zeros nextafter nll_loss nll_loss2d nll_loss2d_forward nll_loss_forward
    nll_loss_nd nonzero nonzero_static norm norm_except_dim normal not_equal nuclear_norm numel numpy_T one_hot ones ones_like outer
    pad pairwise_distance pdist permute pinverse pixel_shuffle pixel_unshuffle poisson poisson_nll_loss polar polygamma positive pow
    prelu prod put qr quantile rad2deg rand rand_like randint randint_like randn randn_like random randperm ravel real reciprocal
    reflection_pad1d reflection_pad2d reflection_pad3d relu relu6 remainder renorm repeat repeat_interleave replication_pad1d
    replication_pad2d replication_pad3d reshape reshape_as resolve_conj resolve_neg rms_norm rnn_relu rnn_relu_cell rnn_tanh
    rnn_tanh_cell roll rot90 round row_stack rrelu rrelu_with_noise rrelu_with_noise_functional rsqrt rsub scalar_tensor
    scaled_dot_product_attention scatter scatter_add scatter_reduce searchsorted segment_reduce select select_scatter selu sgn sigmoid
    sign signbit silu sin sinc sinh slice slice_scatter slogdet slow_conv3d smooth_l1_loss soft_margin_loss softmax softplus
    softshrink sort special_entr special_erf special_erfc special_erfcx special_exp2 special_expit special_expm1 special_gammaln
    special_i0e special_i1 special_i1e special_log1p special_log_ndtr special_log_softmax special_logit special_logsumexp
    special_ndtri special_polygamma special_psi special_round special_sinc special_softmax special_xlog1py special_zeta split
    split_copy split_with_sizes sqrt square squeeze stack std std_mean stft sub subtract sum sum_to_size svd swapaxes swapdims
    sym_numel sym_size sym_storage_offset sym_stride t take take_along_dim tan tanh tensor_split tensordot threshold tile to topk
    trace transpose trapezoid trapz triangular_solve tril tril_indices triplet_margin_loss triu triu_indices true_divide trunc type_as
    unbind unflatten unfold uniform unique_consecutive unique_dim unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze
    upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d
    upsample_trilinear3d vander var var_mean vdot view view_as view_as_complex view_as_real vsplit vstack where xlogy zero zeros
    zeros_like
"""
ATEN: Final = frozenset(_NAMES.split())
PRIMS: Final = frozenset({"convert_element_type", "broadcast_in_dim", "iota", "view_of"})

# Arithmetic on sizes: the only plain Python functions a graph may call.
NUMBERS: Final[dict[str, Callable[..., Any]]] = {
    **{f"_operator.{f.__name__}": f for f in (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.neg)},
    **{f"_operator.{f.__name__}": f for f in (operator.truediv, operator.pos, operator.eq, operator.ne, operator.lt, operator.le)},
    **{f"_operator.{f.__name__}": f for f in (operator.gt, operator.ge)},
    "_operator.and_": operator.and_,
    "_operator.or_": operator.or_,
    "math.trunc": math.trunc,
    "torch.sym_int": torch.sym_int,
    "torch.sym_float": torch.sym_float,
    "torch.sym_max": torch.sym_max,
    "torch.sym_min": torch.sym_min,
    "torch.sym_not": torch.sym_not,
    "torch.sym_ite": torch.sym_ite,
}
SIZES: Final = frozenset({"torch.ops.aten.sym_size.int", "torch.ops.aten.sym_numel.default"})

# Checks that tracing wrote down. They hold for the traced device and range of sizes only, and compute nothing.
ASSERTS: Final = frozenset(
    {
        "torch.ops.aten._assert_async.msg",
        "torch.ops.aten._assert_scalar.default",
        "torch.ops.aten._assert_tensor_metadata.default",
        "torch.ops.aten.sym_constrain_range.default",
        "torch.ops.aten.sym_constrain_range_for_size.default",
    }
)
TRACEPOINT: Final = "torch.ops.higher_order._export_tracepoint"  # marks arguments and results of a module call; gives back what it gets
NO_GRAD: Final = "torch.ops.higher_order.wrap_with_set_grad_enabled"

_TARGET: Final = re.compile(r"torch\.ops\.(aten|prims)\.([A-Za-z_][A-Za-z0-9_]*)\.([A-Za-z_][A-Za-z0-9_]*)")


@cache
def operator_called(target: str) -> Callable[..., Any]:
    """The function behind a node's target; L207 for one that is not in the tables, L706 for a kernel that is not here."""
    if target in NUMBERS:
        return NUMBERS[target]
    fits = _TARGET.fullmatch(target)
    if fits is not None:
        space, name, overload = fits.groups()
        table = {"aten": ATEN, "prims": PRIMS}[space]
        if name in table or name.removesuffix("_") in table:
            found = getattr(getattr(getattr(torch.ops, space), name, None), overload, None)
            if isinstance(found, OpOverload):
                return found
    kernel = kernel_called(target)
    if kernel is not None:
        return kernel
    raise LaminarError(
        "L207",
        f"the graph calls '{target[:120]}', which is not among the operators that a stored graph may use",
        hint="take layers from people you trust only; if it is yours, build the layer where its source code is",
    )
