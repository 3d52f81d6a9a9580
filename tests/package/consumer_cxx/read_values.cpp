// Reads in C++ what debian_test.sh has written in Python, through the public header alone. Status 1: it is not there.
#include <cstdint>
#include <cstdio>
#include <string>

#include <holdfast/manager.hpp>
#include <holdfast/values.hpp>

namespace values = holdfast::values;

int main(int argc, char** argv) {
    if (argc != 2) {
        return 2;
    }
    holdfast::manager heap(holdfast::open_read_only, argv[1]);
    const auto* const root = values::find_root(heap);
    const auto* const entries = root == nullptr ? nullptr : root->entries.as<values::dict>();
    if (entries == nullptr) {
        return 1;
    }
    const values::value* const words = entries->find("words");
    const auto* const dict = words == nullptr ? nullptr : words->as<values::dict>();
    if (dict == nullptr || dict->size != 100) {
        return 1;
    }
    for (int i = 0; i < 100; ++i) {
        const values::value* const found = dict->find(std::to_string(i));
        if (found == nullptr || found->what != values::kind::integer || found->integer() != i * i) {
            return 1;
        }
    }
    const values::value* const list = entries->find("list");
    const auto* const sequence = list == nullptr ? nullptr : list->as<values::sequence>();
    if (sequence == nullptr || sequence->size != 3 || sequence->elements[1].text() != "two" ||
        sequence->elements[2].real() != 3.5) {
        return 1;
    }
    const values::value* const x = entries->find("x");
    const auto* const array = x == nullptr ? nullptr : x->as<values::array>();
    if (array == nullptr || array->type->view() != "'<i8'" || array->dimensions != 1 || array->shape()[0] != 10) {
        return 1;
    }
    const auto* const elements = reinterpret_cast<const std::int64_t*>(array->data.get());
    std::printf("read_values: %lld\n", static_cast<long long>(elements[9]));
    return elements[9] == 9 && dict->find("100") == nullptr ? 0 : 1;
}
