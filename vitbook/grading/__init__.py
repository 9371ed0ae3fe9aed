"""Grade notebooks: the student's code runs in a sandbox, the tests and the verdict stay outside.

    vitnb-grade FOLDER_OR_ZIP --exercises 3.1 3.2

cli.py is the command; submissions.py finds the notebooks, layouts.py tells whose
they are, notebook.py what a file is that is none. student.py talks to the
process that runs one, sandbox.py shuts that process in (_rights.py gives up
its rights, syscalls.py lists the system calls that it keeps, _supervisor.py leaves
nothing of it behind), _child.py is what runs there, running.py runs its cells,
wire.py holds what may cross. reports.py writes
what a teacher and a student get, sheets.py fills a platform's sheet.
"""
