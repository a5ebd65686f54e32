/* How far the study is, and what became of its jobs. */
SELECT j.state, count(*) AS jobs,
       coalesce(sum(s.complete), 0) AS whole_outputs,
       coalesce(sum(s.complete AND s.place LIKE '%/spare'), 0) AS elsewhere,
       coalesce(sum(CASE WHEN s.complete THEN s.size END), 0) AS bytes
FROM job_state_latest j LEFT JOIN staging_latest s ON s.direction = 'out' AND s.file = j.job_name
GROUP BY j.state ORDER BY jobs DESC;
