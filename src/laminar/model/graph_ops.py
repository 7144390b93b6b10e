"""Operators that a stored graph may use. What is not in this table is not called, whoever wrote the graph.

A name allows all overloads and the in-place form (`relu` stands for `relu.default`, `relu_.default` …). Missing on purpose: what
touches files (`from_file`, `save`), memory without checks (`set_`, `resize_`, `_unsafe_*`, packed and quantized weights),
other devices' internals, and printing. `laminar::` operators are kernels of this process, which registered them itself.
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

ATEN: Final = frozenset(
    """
    abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr alias amax amin aminmax angle any all arange arccos arccosh arcsin
    arcsinh arctan arctan2 arctanh argmax argmin argsort asin asinh atan atan2 atanh atleast_1d atleast_2d atleast_3d baddbmm bernoulli
    bilinear bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor block_diag bmm broadcast_tensors
    broadcast_to bucketize cat cdist ceil celu channel_shuffle chunk clamp clamp_max clamp_min clip clone column_stack complex concat
    concatenate conj conj_physical constant_pad_nd contiguous copy copysign cos cosh cosine_similarity count_nonzero cross cummax cummin
    cumprod cumsum deg2rad detach diag diag_embed diagonal diagonal_scatter diff digamma dist div divide dot einsum eq equal erf erfc erfinv
    exp exp2 expand expand_as expm1 exponential eye fill fill_diagonal fix flatten flip fliplr flipud float_power floor floor_divide fmax fmin
    fmod frac full full_like gather ge ger greater greater_equal gt heaviside histc hstack hypot i0 imag index index_add index_copy index_fill
    index_put index_select inner isclose isfinite isinf isnan isneginf isposinf isreal kron kthvalue lcm ldexp le lerp less less_equal lgamma
    lift lift_fresh lift_fresh_copy linspace log log10 log1p log2 logaddexp logaddexp2 logcumsumexp logical_and logical_not logical_or
    logical_xor logit logspace logsumexp lt mH mT masked_fill masked_scatter masked_select matmul matrix_exp matrix_power max maximum mean
    median meshgrid min minimum mm mode moveaxis movedim msort mul multinomial multiply mv nan_to_num nanmean nansum narrow ne neg negative
    new_empty new_full new_ones new_zeros nonzero norm normal not_equal numpy_T one_hot ones ones_like outer pad permute pixel_shuffle
    pixel_unshuffle poisson polar positive pow prod put quantile rad2deg rand rand_like randint randint_like randn randn_like randperm ravel
    real reciprocal remainder renorm repeat repeat_interleave reshape reshape_as resolve_conj resolve_neg roll rot90 round rsqrt rsub
    scalar_tensor scatter scatter_add scatter_reduce searchsorted select select_scatter sgn sigmoid sign signbit sin sinc sinh slice
    slice_scatter softmax sort split split_with_sizes sqrt square squeeze stack std std_mean sub subtract sum sum_to_size swapaxes swapdims t
    take take_along_dim tan tanh tensor_split tensordot tile to topk trace transpose trapezoid tril tril_indices triu triu_indices true_divide
    trunc type_as unbind unflatten unfold uniform unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze vander var var_mean vdot view
    view_as view_as_complex view_as_real vstack where xlogy zero zeros zeros_like as_strided empty empty_like empty_permuted
    _to_copy _softmax _log_softmax _shape_as_tensor item _local_scalar_dense sym_size sym_numel sym_stride sym_storage_offset is_nonzero
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool1d
    adaptive_max_pool2d adaptive_max_pool3d affine_grid_generator alpha_dropout avg_pool1d avg_pool2d avg_pool3d batch_norm binary_cross_entropy
    binary_cross_entropy_with_logits col2im conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution
    cosine_embedding_loss cross_entropy_loss dropout elu embedding embedding_bag _embedding_bag feature_alpha_dropout feature_dropout
    fractional_max_pool2d fractional_max_pool3d gelu glu grid_sampler grid_sampler_2d grid_sampler_3d group_norm gru gru_cell hardshrink
    hardsigmoid hardswish hardtanh huber_loss im2col instance_norm kl_div l1_loss layer_norm leaky_relu linear log_sigmoid
    log_sigmoid_forward log_softmax lstm lstm_cell max_pool1d max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices
    max_unpool2d max_unpool3d mish mse_loss multi_head_attention native_batch_norm native_dropout native_group_norm native_layer_norm
    _native_batch_norm_legit _native_batch_norm_legit_no_training _native_batch_norm_legit_functional nll_loss nll_loss_nd nll_loss2d pairwise_distance pdist
    prelu reflection_pad1d reflection_pad2d reflection_pad3d relu relu6 replication_pad1d replication_pad2d replication_pad3d rms_norm
    rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell rrelu rrelu_with_noise scaled_dot_product_attention
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_attention_math selu silu smooth_l1_loss soft_margin_loss softplus
    softshrink threshold upsample_bicubic2d upsample_bilinear2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa upsample_linear1d
    upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d _weight_norm _weight_norm_interface fake_quantize_per_tensor_affine
    fake_quantize_per_channel_affine hann_window hamming_window blackman_window bartlett_window kaiser_window stft istft
    fft_fft fft_fft2 fft_fftn fft_ifft fft_ifft2 fft_ifftn fft_rfft fft_rfft2 fft_rfftn fft_irfft fft_irfft2 fft_irfftn fft_hfft fft_ihfft
    fft_fftshift fft_ifftshift fft_fftfreq fft_rfftfreq linalg_cholesky linalg_cholesky_ex linalg_cross linalg_det linalg_diagonal linalg_eigh linalg_inv
    linalg_inv_ex linalg_lu linalg_matmul linalg_matrix_exp linalg_matrix_norm linalg_matrix_power linalg_multi_dot linalg_norm linalg_pinv
    linalg_qr linalg_slogdet linalg_solve linalg_solve_ex linalg_solve_triangular linalg_svd linalg_vecdot linalg_vector_norm
    """.split()
)
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

_TARGET: Final = re.compile(r"torch\.ops\.(aten|prims|laminar)\.([A-Za-z_][A-Za-z0-9_]*)\.([A-Za-z_][A-Za-z0-9_]*)")


@cache
def operator_called(target: str) -> Callable[..., Any]:
    """The function behind a node's target; L207 for one that is not in the tables."""
    if target in NUMBERS:
        return NUMBERS[target]
    fits = _TARGET.fullmatch(target)
    if fits is not None:
        space, name, overload = fits.groups()
        table = {"aten": ATEN, "prims": PRIMS}.get(space)
        if table is None or name in table or name.removesuffix("_") in table:
            found = getattr(getattr(getattr(torch.ops, space), name, None), overload, None)
            if isinstance(found, OpOverload):
                return found
    raise LaminarError(
        "L207",
        f"the graph calls '{target[:120]}', which is not among the operators that a stored graph may use",
        hint="take layers from people you trust only; if it is yours, build the layer where its source code is",
    )
