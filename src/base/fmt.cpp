// The functions of fmt, compiled once for all of Holdfast. Included everywhere (FMT_HEADER_ONLY) they took a third to
// two thirds of the time of each file; linked from its own library, every program that links Holdfast would need that,
// too. Programs that do link it get two copies: cmake/holdfast_dependencies.cmake gives this one its own namespace.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

// What fmt's headers leave to one file.
template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;
template auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;

}  // namespace detail
FMT_END_NAMESPACE
