# Where mutants are compiled in, a file that has some is compiled, and included, as tools/mutants.py makes it of the
# file in src/ and the patches in tests/mutants/. hf_put_mutants_in(list) names those copies in the place of the files.
set(HOLDFAST_MUTATED "") # from src/
if(HOLDFAST_MUTANTS)
    set(copies ${CMAKE_BINARY_DIR}/mutants)
    file(GLOB patches CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/mutants/*.patch)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${patches})
    foreach(patch IN LISTS patches)
        file(STRINGS ${patch} begins REGEX "^--- src/")
        list(TRANSFORM begins REPLACE "^--- src/" "")
        list(APPEND HOLDFAST_MUTATED ${begins})
    endforeach()
    set(mutated_files ${HOLDFAST_MUTATED})
    set(mutants_written ${HOLDFAST_MUTATED})
    list(TRANSFORM mutated_files PREPEND ${PROJECT_SOURCE_DIR}/src/)
    list(TRANSFORM mutants_written PREPEND ${copies}/)
    add_custom_command(
        OUTPUT ${copies}/written
        BYPRODUCTS ${mutants_written}
        COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/mutants.py --into ${copies}
        COMMAND ${CMAKE_COMMAND} -E touch ${copies}/written
        DEPENDS ${PROJECT_SOURCE_DIR}/tools/mutants.py ${patches} ${mutated_files}
        VERBATIM
    )
    add_custom_target(hf_mutants DEPENDS ${copies}/written)
    add_dependencies(hf_flags hf_mutants)
    include_directories(BEFORE ${copies}) # the headers among them come before those of src/
endif()

function(hf_put_mutants_in list)
    set(compiled "")
    foreach(source IN LISTS ${list})
        file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/src ${source})
        if(name IN_LIST HOLDFAST_MUTATED)
            set(source ${CMAKE_BINARY_DIR}/mutants/${name})
        endif()
        list(APPEND compiled ${source})
    endforeach()
    set(${list} ${compiled} PARENT_SCOPE)
endfunction()
