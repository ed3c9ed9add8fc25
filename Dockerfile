# The image of a production installation: Airflow with gpufleet, its DAGs and its plugin.
FROM apache/airflow:3.3.2-python3.11
COPY requirements.txt /opt/gpufleet/requirements.txt
# Airflow's own version is pinned in the file too, so that nothing can move it
RUN pip install --no-cache-dir --require-hashes -r /opt/gpufleet/requirements.txt
COPY requirements-clouds.txt /opt/gpufleet/requirements-clouds.txt
RUN pip install --no-cache-dir --require-hashes -r /opt/gpufleet/requirements-clouds.txt
COPY --chown=airflow:root pyproject.toml README.md /opt/gpufleet/
COPY --chown=airflow:root include/ /opt/gpufleet/include/
COPY --chown=airflow:root plugins/ /opt/gpufleet/plugins/
RUN pip install --no-cache-dir --no-deps /opt/gpufleet
COPY --chown=airflow:root dags/ /opt/airflow/dags/
COPY --chown=airflow:root plugins/gpufleet_plugin.py plugins/.airflowignore /opt/airflow/plugins/
COPY --chown=airflow:root config/ /opt/airflow/config/gpufleet/
