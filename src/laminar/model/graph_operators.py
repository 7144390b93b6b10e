"""The table of operators that a stored graph may call. No graph can call an operator outside of it.

`relu` stands for relu.default, `add.Tensor|Scalar` for add.Tensor and add.Scalar, `relu_?` for relu and relu_ (in place). Each overload
is listed separately, because its siblings may behave differently: write into an `out` tensor, take a generator, work on Python lists.

For every call, the types of its arguments are checked against the operator's schema (PyTorch accepts a number as a dtype), and numbers
that cannot be sizes or positions are refused. RULES lists requirements that an operator needs for safe memory access and does not check
itself. Each rule is there because a call that broke it crashed, or read past the end of a tensor.

Missing on purpose: operators for files (`from_file`, `save`), memory without checks (`set_`, `resize_`, `as_strided_`, packed and
quantized weights, `segment_reduce`, `linalg_lu_solve`), `out=` forms, printing, sparse and nested tensors, other devices' internals.
tests/nets/graph_operators.py calls every overload with hostile arguments. Kernels are operators of their own (graph_kernels.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from laminar.model.graph_rules import (
    Rule,
    aligned_scales,
    attends,
    bags,
    channels,
    contiguous,
    given,
    groups_of_heads,
    like,
    not_empty,
    real,
    recurrent,
    sized,
    weight_norm,
)

SIZES: Final = """
    _shape_as_tensor sym_numel sym_size.int
"""
CREATION: Final = """
    arange.default|start|start_step bartlett_window.default|periodic bernoulli.default|p bernoulli_.float|Tensor
    blackman_window.default|periodic empty.memory_format empty_like empty_permuted exponential_ eye.default|m fft_fftfreq fft_rfftfreq
    full full_like hamming_window.default|periodic|periodic_alpha|periodic_alpha_beta hann_window.default|periodic
    kaiser_window.default|periodic|beta lift_fresh lift_fresh_copy linspace.Tensor_Tensor|Tensor_Scalar|Scalar_Tensor|default
    logspace.Tensor_Tensor|Tensor_Scalar|Scalar_Tensor|default multinomial new_empty new_full new_ones new_zeros
    normal.Tensor_float|float_Tensor|Tensor_Tensor|float_float normal_ normal_functional ones ones_like poisson rand rand_like
    randint.default|low randint_like.default|low_dtype randn randn_like randperm scalar_tensor uniform_ zeros zeros_like
"""
ELEMENTWISE: Final = """
    abs_? absolute_? acos_? acosh_? add_?.Tensor|Scalar addcdiv_? addcmul_? angle arccos_? arccosh_? arcsin_? arcsinh_? arctan_?
    arctan2_? arctanh_? asin_? asinh_? atan_? atan2_? atanh_? bitwise_and_?.Tensor|Scalar bitwise_and.Scalar_Tensor
    bitwise_left_shift_?.Tensor|Tensor_Scalar bitwise_left_shift.Scalar_Tensor bitwise_not_? bitwise_or_?.Tensor|Scalar
    bitwise_or.Scalar_Tensor bitwise_right_shift_?.Tensor|Tensor_Scalar bitwise_right_shift.Scalar_Tensor bitwise_xor_?.Tensor|Scalar
    bitwise_xor.Scalar_Tensor ceil_? celu_? clamp_?.default|Tensor clamp_max_?.default|Tensor clamp_min_?.default|Tensor
    clip_?.default|Tensor clone complex conj conj_physical_? copy_? copysign_?.Tensor|Scalar cos_? cosh_? deg2rad_? digamma_?
    div_?.Tensor|Scalar|Tensor_mode|Scalar_mode divide_?.Tensor|Scalar|Tensor_mode|Scalar_mode elu_? eq_?.Tensor|Scalar erf_? erfc_?
    erfinv_? exp_? exp2_? expm1_? fake_quantize_per_channel_affine fake_quantize_per_tensor_affine.default|tensor_qparams
    fill_?.Scalar|Tensor fix_? float_power.Tensor_Tensor|Tensor_Scalar|Scalar floor_? floor_divide_?.Scalar floor_divide
    floor_divide_.Tensor fmax fmin fmod_?.Tensor|Scalar frac_? frexp.Tensor ge_?.Tensor|Scalar gelu_? glu greater_?.Tensor|Scalar
    greater_equal_?.Tensor|Scalar gt_?.Tensor|Scalar hardshrink hardsigmoid_? hardswish_? hardtanh_? heaviside_? hypot_? i0_? igamma_?
    igammac_? imag isclose isfinite isinf isnan isneginf isposinf isreal ldexp.Tensor ldexp_ le_?.Tensor|Scalar leaky_relu_?
    lerp_?.Scalar|Tensor less_?.Tensor|Scalar less_equal_?.Tensor|Scalar lgamma_? log_? log10_? log1p_? log2_? log_sigmoid
    log_sigmoid_forward logaddexp logaddexp2 logical_and_? logical_not_? logical_or_? logical_xor_? logit_? lt_?.Tensor|Scalar maximum
    minimum mish_? mul_?.Tensor|Scalar multiply_?.Tensor|Scalar mvlgamma_? nan_to_num_? ne_?.Tensor|Scalar neg_? negative_? nextafter_?
    not_equal_?.Tensor|Scalar polar polygamma_? positive pow_?.Scalar pow.Tensor_Tensor|Tensor_Scalar pow_.Tensor prelu rad2deg_? real
    reciprocal_? relu_? relu6_? remainder_?.Tensor|Scalar remainder.Scalar_Tensor resolve_conj resolve_neg round_?.default|decimals
    rsqrt_? rsub.Tensor|Scalar selu_? sgn_? sigmoid_? sign_? signbit silu_? sin_? sinc_? sinh_? softplus softshrink special_entr
    special_erf special_erfc special_erfcx special_exp2 special_expit special_expm1 special_gammaln special_i0e special_i1 special_i1e
    special_log_ndtr special_logit special_ndtri special_polygamma special_psi special_round special_sinc
    special_xlog1py.default|other_scalar|self_scalar special_zeta.default|other_scalar|self_scalar sqrt_? square_? sub_?.Tensor|Scalar
    subtract_?.Tensor|Scalar tan_? tanh_? threshold_? tril_? triu_? true_divide_?.Tensor|Scalar trunc_? xlogy_?.Tensor|Scalar_Other
    xlogy.Scalar_Self zero_
"""
REDUCTIONS: Final = """
    all.default|dim|dims amax amin aminmax any.default|dim|dims argmax argmin count_nonzero.default|dim_IntList cumprod_? cumsum_?
    cumulative_trapezoid.x|dx _log_softmax log_softmax.int logcumsumexp logsumexp max.other|default|dim mean.default|dim
    min.other|default|dim nanmean nansum norm.Scalar|ScalarOpt_dim prod.default|dim_int _softmax softmax.int special_log_softmax
    special_logsumexp special_softmax std.default|dim|correction std_mean.default|dim|correction sum.dim_IntList|default sum_to_size
    trapezoid.x|dx trapz.x|dx var.default|dim|correction var_mean.default|dim|correction
"""
SORTING: Final = """
    argsort.default|stable cummax cummin kthvalue median.default|dim msort nanmedian.default|dim nanquantile.default|scalar
    quantile.default|scalar sort.default|stable topk
"""
SHAPES: Final = """
    adjoint alias as_strided atleast_1d.default|Sequence atleast_2d.default|Sequence atleast_3d.default|Sequence block_diag
    broadcast_tensors broadcast_to cat chunk column_stack concat concatenate contiguous detach_? diag diag_embed diagflat diagonal
    diagonal_scatter diff dsplit.int|array dstack expand expand_as fill_diagonal_ flatten.using_ints flip fliplr flipud hsplit.int|array
    hstack item _local_scalar_dense mH mT meshgrid.default|indexing moveaxis.intlist|int movedim.int|intlist permute ravel repeat
    reshape reshape_as roll rot90 row_stack split.Tensor|sizes|default split_copy.Tensor split_with_sizes squeeze_?.default|dim|dims
    stack swapaxes swapdims t_? tensor_split.sections|indices tile to.device|dtype|other|dtype_layout _to_copy transpose.int transpose_
    type_as unbind.int unflatten.int unfold unsafe_chunk unsafe_split.Tensor unsafe_split_with_sizes unsqueeze_? view.default|dtype
    view_as view_as_complex view_as_real vsplit.int|array vstack
"""
PICKING: Final = """
    argwhere bincount bucketize.Tensor|Scalar gather histc index.Tensor index_add_? index_copy_? index_fill_?.int_Tensor|int_Scalar
    index_put_? index_reduce_? index_select isin.Tensor_Tensor|Tensor_Scalar|Scalar_Tensor masked_fill_?.Scalar|Tensor masked_scatter_?
    masked_select narrow nonzero repeat_interleave.Tensor|self_Tensor|self_int scatter_?.value|src|reduce|value_reduce scatter_add_?
    scatter_reduce_?.two searchsorted.Tensor|Scalar select.int select_scatter slice.Tensor slice_scatter take take_along_dim
    where.self|ScalarOther|ScalarSelf|Scalar
"""
PRODUCTS: Final = """
    addbmm_? addmm_? addmv_? addr_? baddbmm_? bilinear bmm cdist cosine_similarity cross dot einsum ger inner kron linear matmul mm mv
    outer pairwise_distance pdist tensordot vdot
"""
LINEAR_ALGEBRA: Final = """
    corrcoef cov det dist frobenius_norm.dim inverse linalg_cholesky linalg_cholesky_ex linalg_cross linalg_det linalg_diagonal
    linalg_eigh linalg_eigvalsh linalg_inv linalg_inv_ex linalg_matmul linalg_matrix_exp linalg_matrix_norm.default|str_ord
    linalg_matrix_power linalg_matrix_rank.atol_rtol_tensor|atol_rtol_float linalg_multi_dot linalg_norm.default|ord_str
    linalg_pinv.default|atol_rtol_float|atol_rtol_tensor linalg_qr linalg_slogdet linalg_solve linalg_solve_ex linalg_solve_triangular
    linalg_svd linalg_svdvals linalg_vecdot linalg_vector_norm logdet matrix_H matrix_exp matrix_power nuclear_norm.default|dim pinverse
    renorm_? slogdet trace
"""
FOURIER: Final = """
    fft_fft fft_fft2 fft_fftn fft_fftshift fft_hfft fft_ifft fft_ifft2 fft_ifftn fft_ifftshift fft_ihfft fft_irfft fft_irfft2 fft_irfftn
    fft_rfft fft_rfft2 fft_rfftn istft stft.default|center
"""
CONVOLUTIONS: Final = """
    col2im conv1d.default|padding conv2d.default|padding conv3d.default|padding conv_tbc conv_transpose1d conv_transpose2d.input
    conv_transpose3d.input convolution im2col slow_conv3d
"""
POOLING: Final = """
    adaptive_avg_pool1d _adaptive_avg_pool2d adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool3d adaptive_max_pool1d
    adaptive_max_pool2d adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d fractional_max_pool2d fractional_max_pool3d max_pool1d
    max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool2d max_unpool3d
"""
RESIZING: Final = """
    affine_grid_generator channel_shuffle constant_pad_nd grid_sampler grid_sampler_2d grid_sampler_3d native_channel_shuffle pad
    pixel_shuffle pixel_unshuffle reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d
    replication_pad3d upsample_bicubic2d.default|vec _upsample_bicubic2d_aa.default|vec upsample_bilinear2d.default|vec
    _upsample_bilinear2d_aa.default|vec upsample_linear1d.default|vec upsample_nearest1d.default|vec upsample_nearest2d.default|vec
    upsample_nearest3d.default|vec upsample_trilinear3d.default|vec
"""
NORMS: Final = """
    batch_norm group_norm instance_norm layer_norm native_batch_norm _native_batch_norm_legit.default|no_stats
    _native_batch_norm_legit_functional _native_batch_norm_legit_no_training native_group_norm native_layer_norm norm_except_dim
    rms_norm _weight_norm _weight_norm_interface
"""
RECURRENT: Final = """
    gru.input gru_cell lstm.input lstm_cell rnn_relu.input rnn_relu_cell rnn_tanh.input rnn_tanh_cell
"""
ATTENTION_AND_EMBEDDING: Final = """
    embedding _embedding_bag embedding_bag.default|padding_idx one_hot scaled_dot_product_attention _scaled_dot_product_attention_math
    _scaled_dot_product_flash_attention_for_cpu
"""
DROPOUT_AND_NOISE: Final = """
    alpha_dropout_? dropout_? feature_alpha_dropout_? feature_dropout_? native_dropout rrelu_? rrelu_with_noise
    rrelu_with_noise_functional
"""
LOSSES: Final = """
    binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy_loss hinge_embedding_loss huber_loss
    kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss nll_loss2d nll_loss2d_forward
    nll_loss_forward nll_loss_nd poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss
"""
PRIMS: Final = "convert_element_type broadcast_in_dim iota view_of"

ATEN: Final = (
    SIZES
    + CREATION
    + ELEMENTWISE
    + REDUCTIONS
    + SORTING
    + SHAPES
    + PICKING
    + PRODUCTS
    + LINEAR_ALGEBRA
    + FOURIER
    + CONVOLUTIONS
    + POOLING
    + RESIZING
    + NORMS
    + RECURRENT
    + ATTENTION_AND_EMBEDDING
    + DROPOUT_AND_NOISE
    + LOSSES
)

# Memory that nobody has written yet may hold what belongs to others: these give zeros.
UNWRITTEN: Final = frozenset({"empty", "empty_like", "empty_permuted", "new_empty"})

_STATISTICS: Final = channels("input", "weight", "bias", "running_mean", "running_var")
_CONVOLUTION: Final = real("input", "weight", "bias")

RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "batch_norm": (_STATISTICS,),
    "instance_norm": (_STATISTICS,),
    "native_batch_norm": (_STATISTICS, given("running_mean", "running_var", unless="training")),
    "_native_batch_norm_legit": (_STATISTICS, given("running_mean", "running_var", unless="training")),
    "_native_batch_norm_legit_functional": (_STATISTICS,),
    "_native_batch_norm_legit_no_training": (_STATISTICS,),
    "_weight_norm": (weight_norm,),
    "_weight_norm_interface": (weight_norm,),
    "_scaled_dot_product_flash_attention_for_cpu": (attends,),
    "scaled_dot_product_attention": (groups_of_heads,),
    "_scaled_dot_product_attention_math": (groups_of_heads,),
    "embedding_bag": (bags,),
    "_embedding_bag": (bags,),
    "gru": (recurrent(3),),
    "lstm": (recurrent(4),),
    "rnn_relu": (recurrent(1),),
    "rnn_tanh": (recurrent(1),),
    "rrelu_with_noise": (like("noise", "self"),),
    "rrelu_with_noise_functional": (like("noise", "self"),),
    **dict.fromkeys(
        ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution"), (_CONVOLUTION,)
    ),
    "slow_conv3d": (sized("weight", "kernel_size"),),
    "_upsample_bicubic2d_aa": (aligned_scales,),
    "_upsample_bilinear2d_aa": (aligned_scales,),
    "group_norm": (contiguous("weight", "bias"),),
    "native_group_norm": (contiguous("weight", "bias"),),
    "pdist": (not_empty("self"),),
}
