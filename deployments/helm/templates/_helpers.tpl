{{- define "jobauto.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "jobauto.labels" -}}
app.kubernetes.io/name: jobauto
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "jobauto.image" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "jobauto.pod" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
{{- end -}}

{{- define "jobauto.facadeUrl" -}}
{{- .Values.facade.url | default (printf "https://%s-facade:8000" (include "jobauto.name" .)) -}}
{{- end -}}

{{- define "jobauto.prefectUrl" -}}
{{- printf "https://%s-prefect:4200/api" (include "jobauto.name" .) -}}
{{- end -}}

{{/* The probes of a part at its management port, which is this far from the first one. */}}
{{- define "jobauto.management" -}}
{{- if .root.Values.management.enabled }}
livenessProbe:
  httpGet: {path: /healthz, port: {{ add .root.Values.management.port .part }}}
  initialDelaySeconds: 60
  timeoutSeconds: 5
  failureThreshold: 6
{{- if .ready }}
readinessProbe:
  httpGet: {path: /readyz, port: {{ add .root.Values.management.port .part }}}
  timeoutSeconds: 5
{{- end }}
{{- end }}
{{- end -}}

{{/* What every part is told. */}}
{{- define "jobauto.environment" -}}
{{- if .Values.management.enabled }}
- {name: JOBAUTO_MANAGEMENT_HOST, value: "0.0.0.0"}
- {name: JOBAUTO_MANAGEMENT_PORT, value: {{ .Values.management.port | quote }}}
{{- end }}
- {name: JOBAUTO_HOME, value: /var/lib/jobauto}
- {name: HOME, value: /var/lib/jobauto}
- {name: JOBAUTO_API_HOST, value: "0.0.0.0"}
- {name: JOBAUTO_FACADE_URL, value: {{ printf "https://%s-facade:8000" (include "jobauto.name" .) | quote }}}
- {name: JOBAUTO_POOL, value: {{ .Values.worker.pool | quote }}}
- {name: SSL_CERT_FILE, value: /etc/jobauto/tls/ca.crt}
- {name: PREFECT_API_SSL_CERT_FILE, value: /etc/jobauto/tls/ca.crt}
- {name: JOBAUTO_TLS_CERT, value: /etc/jobauto/tls/tls.crt}
- {name: JOBAUTO_TLS_KEY, value: /etc/jobauto/tls/tls.key}
{{- if .Values.prefect.enabled }}
- {name: PREFECT_API_URL, value: {{ include "jobauto.prefectUrl" . | quote }}}
{{- end }}
{{- with .Values.prefect.url }}
- {name: JOBAUTO_PREFECT_UI_URL, value: {{ . | quote }}}
- {name: PREFECT_UI_API_URL, value: {{ printf "%s/api" (trimSuffix "/" .) | quote }}}
{{- end }}
{{- with .Values.ingress.trustedProxies }}
- {name: JOBAUTO_TRUSTED_PROXIES, value: {{ . | quote }}}
{{- end }}
{{- range $name, $value := .Values.settings }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end -}}

{{/* What only the parts are told that open the ledger. */}}
{{- define "jobauto.ledger" -}}
- {name: JOBAUTO_URL, value: {{ include "jobauto.facadeUrl" . | quote }}}
- name: JOBAUTO_DATABASE_URL
  valueFrom:
    secretKeyRef: {name: {{ required "secrets.existing names the Secret with database and key" .Values.secrets.existing }}, key: database-url}
{{- end -}}

{{- define "jobauto.mounts" -}}
- {name: home, mountPath: /var/lib/jobauto}
- {name: temporary, mountPath: /tmp}
- {name: tls, mountPath: /etc/jobauto/tls, readOnly: true}
{{- end -}}

{{- define "jobauto.volumes" -}}
- {name: temporary, emptyDir: {}}
- name: tls
  secret: {secretName: {{ required "tls.existing names the Secret with the certificate" .Values.tls.existing }}, defaultMode: 0440}
{{- end -}}

{{/* The key is taken only from a file that nobody else can read: a mounted one can't be that. */}}
{{- define "jobauto.keyInit" -}}
- name: key
  {{- include "jobauto.image" . | nindent 2 }}
  command: [install, -m, "600", /etc/jobauto/key/secret.key, /var/lib/jobauto/secret.key]
  volumeMounts:
    - {name: home, mountPath: /var/lib/jobauto}
    - {name: key, mountPath: /etc/jobauto/key, readOnly: true}
{{- end -}}

{{- define "jobauto.keyVolume" -}}
- {name: home, emptyDir: {}}
- name: key
  secret:
    secretName: {{ .Values.secrets.existing }}
    defaultMode: 0440
    items: [{key: secret.key, path: secret.key}]
{{- end -}}
