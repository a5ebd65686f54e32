# SPDX-License-Identifier: Apache-2.0
"""A real BOINC client with work of an anonymous platform, as it would have it from a project's server: there is none, and the
network is off."""
import os
import re
import socket
import subprocess

from grid import run, start, stop, wait_for

PROGRAMS = ("boinc", "boinccmd")
PROJECT = "http://127.0.0.1/gridline/"
NAME = "127.0.0.1_gridline"

ACCOUNT = f"""<account><master_url>{PROJECT}</master_url><authenticator>{'0' * 32}</authenticator></account>
"""
APP = """<app_info>
<app><name>job</name></app>
<file_info><name>job</name><executable/></file_info>
<app_version><app_name>job</app_name><version_num>100</version_num><api_version>7.20.0</api_version><avg_ncpus>1</avg_ncpus>
<flops>1e9</flops><file_ref><file_name>job</file_name><main_program/></file_ref></app_version>
</app_info>
"""
PREFERENCES = """<global_preferences><run_on_batteries>1</run_on_batteries><run_if_user_active>1</run_if_user_active>
<suspend_cpu_usage>0</suspend_cpu_usage><max_ncpus_pct>100</max_ncpus_pct><cpu_usage_limit>100</cpu_usage_limit>
<disk_max_used_pct>100</disk_max_used_pct><disk_min_free_gb>0</disk_min_free_gb>
<ram_max_used_busy_pct>100</ram_max_used_busy_pct></global_preferences>
"""
OPTIONS = """<cc_config><log_flags><task_debug>1</task_debug><slot_debug>1</slot_debug></log_flags>
<options><skip_cpu_benchmarks>1</skip_cpu_benchmarks></options></cc_config>
"""
WORK = """<workunit><name>{name}</name><app_name>job</app_name><version_num>100</version_num><command_line>{name}</command_line>
<rsc_fpops_est>1e9</rsc_fpops_est><rsc_fpops_bound>1e18</rsc_fpops_bound><rsc_memory_bound>1e8</rsc_memory_bound>
<rsc_disk_bound>1e9</rsc_disk_bound></workunit>
"""
RESULT = """<result><name>{name}_0</name><state>2</state><platform>x86_64-pc-linux-gnu</platform><version_num>100</version_num>
<wu_name>{name}</wu_name><report_deadline>4000000000</report_deadline><received_time>1700000000</received_time></result>
"""


class Boinc:
    """program is a shell script that gets the name of its job."""

    def __init__(self, folder, program, names):
        self.folder = folder
        project = f"{folder}/projects/{NAME}"
        os.makedirs(project)
        state = f"""<client_state>
<project><master_url>{PROJECT}</master_url><project_name>gridline</project_name><dont_request_more_work/></project>
<app><name>job</name></app>
{''.join(WORK.format(name=n) for n in names)}{''.join(RESULT.format(name=n) for n in names)}
<user_run_request>1</user_run_request><user_network_request>3</user_network_request></client_state>
"""
        for path, text in ((f"{folder}/account_{NAME}.xml", ACCOUNT), (project + "/app_info.xml", APP), (project + "/job", program),
                           (folder + "/global_prefs_override.xml", PREFERENCES), (folder + "/cc_config.xml", OPTIONS),
                           (folder + "/client_state.xml", state)):
            with open(path, "w") as f:
                f.write(text)
        os.chmod(project + "/job", 0o755)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        with open(folder + "/log", "wb") as log:
            self.process = start(["boinc", "--dir", folder, "--gui_rpc_port", str(self.port), "--no_gpus", "--allow_multiple_clients"],
                                 stdout=log, stderr=subprocess.STDOUT, cwd=folder)
        wait_for(lambda: os.path.exists(folder + "/gui_rpc_auth.cfg") and self.command("--get_state"), "BOINC's client")

    def command(self, *words):
        """What the client says; "" while it can't be asked."""
        with open(self.folder + "/gui_rpc_auth.cfg") as f:
            password = f.read().strip()
        asked = run("boinccmd", "--host", f"127.0.0.1:{self.port}", "--passwd", password, *words, check=False)
        return asked.stdout if asked.returncode == 0 else ""

    def tasks(self):
        """{name: {what the client says of it}}"""
        found = {}
        for text in re.split(r"^\d+\) -+$", self.command("--get_tasks"), flags=re.M)[1:]:
            task = dict(re.findall(r"^ +([^:\n]+): (.*)$", text, flags=re.M))
            found[task["WU name"]] = task
        return found

    def abort(self, name):
        self.command("--task", PROJECT, name + "_0", "abort")

    def left_in_slots(self):
        slots = self.folder + "/slots"
        return [f"{slot}/{name}" for slot in os.listdir(slots) for name in os.listdir(f"{slots}/{slot}")]

    def log(self):
        with open(self.folder + "/log") as f:
            return f.read()

    def stop(self):
        return stop(self.process)
