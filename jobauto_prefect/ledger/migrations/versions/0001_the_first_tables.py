"""The first tables"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


SQLITE_GUARDS = [
    """
    CREATE TRIGGER audit_entry_no_update BEFORE UPDATE ON audit_entry
    BEGIN SELECT RAISE(ABORT, 'audit entries are never changed'); END
    """,
    """
    CREATE TRIGGER audit_entry_no_delete BEFORE DELETE ON audit_entry
    BEGIN SELECT RAISE(ABORT, 'audit entries are never deleted'); END
    """,
]
POSTGRESQL_GUARDS = [
    """
    CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'audit entries are never changed, deleted or truncated'; END $$
    """,
    """
    CREATE TRIGGER audit_entry_no_change BEFORE UPDATE OR DELETE ON audit_entry
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_change()
    """,
    """
    CREATE TRIGGER audit_entry_no_truncate BEFORE TRUNCATE ON audit_entry
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()
    """,
]


def guard_audit_entries() -> None:
    postgresql = op.get_bind().dialect.name == "postgresql"
    for statement in POSTGRESQL_GUARDS if postgresql else SQLITE_GUARDS:
        op.execute(statement)


def upgrade() -> None:
    op.create_table('app',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('uuid', sa.String(), nullable=True),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('enabled', sa.Boolean(), nullable=False),
    sa.Column('version', sa.String(), nullable=True),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('document', sa.JSON(), nullable=False),
    sa.Column('flow_id', sa.Uuid(), nullable=True),
    sa.Column('flow_name', sa.String(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('labels', sa.JSON(), nullable=False),
    sa.Column('retired_at', sa.DateTime(timezone=True), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_app'))
    )
    with op.batch_alter_table('app', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_app_name'), ['name'], unique=False)
        batch_op.create_index('uq_app_uuid', ['uuid'], unique=True, sqlite_where=sa.text('retired_at IS NULL'), postgresql_where=sa.text('retired_at IS NULL'))

    op.create_table('audit_entry',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), sa.Identity(always=False), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('actor', sa.String(), nullable=False),
    sa.Column('user_id', sa.Integer(), nullable=True),
    sa.Column('door', sa.String(), nullable=False),
    sa.Column('address', sa.String(), nullable=True),
    sa.Column('user_agent', sa.String(), nullable=True),
    sa.Column('request_id', sa.String(), nullable=True),
    sa.Column('entity_type', sa.String(), nullable=False),
    sa.Column('entity_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=True),
    sa.Column('company_id', sa.Integer(), nullable=True),
    sa.Column('action', sa.String(), nullable=False),
    sa.Column('changes', sa.JSON(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_audit_entry'))
    )
    with op.batch_alter_table('audit_entry', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_audit_entry_company_id'), ['company_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_audit_entry_created_at'), ['created_at'], unique=False)
        batch_op.create_index('ix_audit_entry_entity', ['entity_type', 'entity_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_audit_entry_user_id'), ['user_id'], unique=False)

    op.create_table('company',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('slug', sa.String(), nullable=False),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('enabled', sa.Boolean(), nullable=False),
    sa.Column('ic', sa.String(), nullable=True),
    sa.Column('email', sa.String(), nullable=True),
    sa.Column('logo', sa.Text(), nullable=True),
    sa.Column('settings', sa.Text(), nullable=True),
    sa.Column('customer', sa.Integer(), nullable=True),
    sa.Column('timezone', sa.String(), nullable=True),
    sa.Column('env', sa.JSON(), nullable=False),
    sa.Column('secrets', sa.JSON(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('labels', sa.JSON(), nullable=False),
    sa.Column('retired_at', sa.DateTime(timezone=True), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_company'))
    )
    with op.batch_alter_table('company', schema=None) as batch_op:
        batch_op.create_index('uq_company_slug', ['slug'], unique=True, sqlite_where=sa.text('retired_at IS NULL'), postgresql_where=sa.text('retired_at IS NULL'))

    op.create_table('credential_type',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('uuid', sa.String(), nullable=True),
    sa.Column('code', sa.String(), nullable=False),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('description', sa.Text(), nullable=True),
    sa.Column('version', sa.String(), nullable=True),
    sa.Column('url', sa.String(), nullable=True),
    sa.Column('homepage', sa.String(), nullable=True),
    sa.Column('logo', sa.Text(), nullable=True),
    sa.Column('fields', sa.JSON(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('labels', sa.JSON(), nullable=False),
    sa.Column('retired_at', sa.DateTime(timezone=True), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_credential_type'))
    )
    with op.batch_alter_table('credential_type', schema=None) as batch_op:
        batch_op.create_index('uq_credential_type_code', ['code'], unique=True, sqlite_where=sa.text('retired_at IS NULL'), postgresql_where=sa.text('retired_at IS NULL'))
        batch_op.create_index('uq_credential_type_uuid', ['uuid'], unique=True, sqlite_where=sa.text('retired_at IS NULL'), postgresql_where=sa.text('retired_at IS NULL'))

    op.create_table('fact',
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('value', sa.String(), nullable=False),
    sa.PrimaryKeyConstraint('name', name=op.f('pk_fact'))
    )
    op.create_table('kept_answer',
    sa.Column('actor', sa.String(), nullable=False),
    sa.Column('route', sa.String(), nullable=False),
    sa.Column('key', sa.String(), nullable=False),
    sa.Column('digest', sa.String(), nullable=False),
    sa.Column('status', sa.Integer(), nullable=True),
    sa.Column('headers', sa.JSON(), nullable=False),
    sa.Column('body', sa.LargeBinary(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.PrimaryKeyConstraint('actor', 'route', 'key', name=op.f('pk_kept_answer'))
    )
    with op.batch_alter_table('kept_answer', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_kept_answer_created_at'), ['created_at'], unique=False)

    op.create_table('topic',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('description', sa.Text(), nullable=True),
    sa.Column('color', sa.String(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('labels', sa.JSON(), nullable=False),
    sa.Column('retired_at', sa.DateTime(timezone=True), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_topic'))
    )
    with op.batch_alter_table('topic', schema=None) as batch_op:
        batch_op.create_index('uq_topic_name', ['name'], unique=True, sqlite_where=sa.text('retired_at IS NULL'), postgresql_where=sa.text('retired_at IS NULL'))

    op.create_table('turn',
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('holder', sa.Uuid(), nullable=False),
    sa.Column('until', sa.DateTime(timezone=True), nullable=False),
    sa.PrimaryKeyConstraint('name', name=op.f('pk_turn'))
    )
    op.create_table('user',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('login', sa.String(), nullable=False),
    sa.Column('email', sa.String(), nullable=True),
    sa.Column('firstname', sa.String(), nullable=True),
    sa.Column('lastname', sa.String(), nullable=True),
    sa.Column('enabled', sa.Boolean(), nullable=False),
    sa.Column('password_hash', sa.String(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('retired_at', sa.DateTime(timezone=True), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_user'))
    )
    with op.batch_alter_table('user', schema=None) as batch_op:
        batch_op.create_index('uq_user_login', ['login'], unique=True, sqlite_where=sa.text('retired_at IS NULL'), postgresql_where=sa.text('retired_at IS NULL'))

    op.create_table('wish',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('kind', sa.String(), nullable=False),
    sa.Column('subject_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('payload', sa.JSON(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('not_before', sa.DateTime(timezone=True), nullable=False),
    sa.Column('taken_until', sa.DateTime(timezone=True), nullable=True),
    sa.Column('attempts', sa.Integer(), nullable=False),
    sa.Column('error', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_wish'))
    )
    with op.batch_alter_table('wish', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_wish_not_before'), ['not_before'], unique=False)

    op.create_table('worker',
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('pool', sa.String(), nullable=False),
    sa.Column('host', sa.String(), nullable=False),
    sa.Column('instance', sa.Uuid(), nullable=False),
    sa.Column('seen_at', sa.DateTime(timezone=True), nullable=False),
    sa.PrimaryKeyConstraint('name', name=op.f('pk_worker'))
    )
    op.create_table('app_version',
    sa.Column('app_id', sa.Integer(), nullable=False),
    sa.Column('number', sa.Integer(), nullable=False),
    sa.Column('version', sa.String(), nullable=True),
    sa.Column('source', sa.Text(), nullable=False),
    sa.Column('replaced_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('replaced_by', sa.String(), nullable=False),
    sa.ForeignKeyConstraint(['app_id'], ['app.id'], name=op.f('fk_app_version_app_id_app'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('app_id', 'number', name=op.f('pk_app_version'))
    )
    op.create_table('company_user',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('company_id', sa.Integer(), nullable=False),
    sa.Column('user_id', sa.Integer(), nullable=False),
    sa.Column('role', sa.String(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['company_id'], ['company.id'], name=op.f('fk_company_user_company_id_company')),
    sa.ForeignKeyConstraint(['user_id'], ['user.id'], name=op.f('fk_company_user_user_id_user')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_company_user')),
    sa.UniqueConstraint('company_id', 'user_id', name=op.f('uq_company_user_company_id_user_id'))
    )
    with op.batch_alter_table('company_user', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_company_user_company_id'), ['company_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_company_user_user_id'), ['user_id'], unique=False)

    op.create_table('credential',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('company_id', sa.Integer(), nullable=False),
    sa.Column('credential_type_id', sa.Integer(), nullable=False),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('values', sa.JSON(), nullable=False),
    sa.Column('secrets', sa.JSON(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('labels', sa.JSON(), nullable=False),
    sa.Column('retired_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['company_id'], ['company.id'], name=op.f('fk_credential_company_id_company')),
    sa.ForeignKeyConstraint(['credential_type_id'], ['credential_type.id'], name=op.f('fk_credential_credential_type_id_credential_type')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_credential'))
    )
    with op.batch_alter_table('credential', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_credential_company_id'), ['company_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_credential_credential_type_id'), ['credential_type_id'], unique=False)
        batch_op.create_index('uq_credential_company_id_name', ['company_id', 'name'], unique=True, sqlite_where=sa.text('retired_at IS NULL'), postgresql_where=sa.text('retired_at IS NULL'))

    op.create_table('event_source',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('company_id', sa.Integer(), nullable=True),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('adapter_type', sa.String(), nullable=False),
    sa.Column('db_connection', sa.String(), nullable=False),
    sa.Column('db_host', sa.String(), nullable=False),
    sa.Column('db_port', sa.String(), nullable=False),
    sa.Column('db_database', sa.String(), nullable=False),
    sa.Column('db_username', sa.String(), nullable=True),
    sa.Column('db_password', sa.String(), nullable=True),
    sa.Column('enabled', sa.Boolean(), nullable=False),
    sa.Column('poll_interval', sa.Integer(), nullable=False),
    sa.Column('consume', sa.String(), nullable=False),
    sa.Column('start_after', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('last_processed_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('polled_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('poll_error', sa.Text(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('labels', sa.JSON(), nullable=False),
    sa.Column('retired_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['company_id'], ['company.id'], name=op.f('fk_event_source_company_id_company')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_event_source'))
    )
    with op.batch_alter_table('event_source', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_event_source_company_id'), ['company_id'], unique=False)
        batch_op.create_index('uq_event_source_name', ['name'], unique=True, sqlite_where=sa.text('retired_at IS NULL'), postgresql_where=sa.text('retired_at IS NULL'))

    op.create_table('runtemplate',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('app_id', sa.Integer(), nullable=False),
    sa.Column('company_id', sa.Integer(), nullable=False),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('active', sa.Boolean(), nullable=False),
    sa.Column('interv', sa.String(), nullable=False),
    sa.Column('cron', sa.String(), nullable=True),
    sa.Column('timezone', sa.String(), nullable=True),
    sa.Column('delay', sa.Integer(), nullable=False),
    sa.Column('executor', sa.String(), nullable=False),
    sa.Column('pool', sa.String(), nullable=True),
    sa.Column('timeout_seconds', sa.Float(), nullable=True),
    sa.Column('deadline_offset', sa.String(), nullable=True),
    sa.Column('allow_late', sa.Boolean(), nullable=False),
    sa.Column('max_attempts', sa.Integer(), nullable=True),
    sa.Column('retry_backoff', sa.String(), nullable=False),
    sa.Column('retry_min_gap', sa.Integer(), nullable=False),
    sa.Column('retry_undeclared', sa.Boolean(), nullable=False),
    sa.Column('overlap', sa.String(), nullable=False),
    sa.Column('misfire', sa.String(), nullable=False),
    sa.Column('on_contact_lost', sa.String(), nullable=False),
    sa.Column('note', sa.Text(), nullable=True),
    sa.Column('env', sa.JSON(), nullable=False),
    sa.Column('secrets', sa.JSON(), nullable=False),
    sa.Column('deployment_id', sa.Uuid(), nullable=True),
    sa.Column('applied_parameters', sa.JSON(), nullable=True),
    sa.Column('applied_paused', sa.Boolean(), nullable=True),
    sa.Column('kept_schedule', sa.String(), nullable=True),
    sa.Column('next_window', sa.DateTime(timezone=True), nullable=True),
    sa.Column('next_schedule', sa.DateTime(timezone=True), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('labels', sa.JSON(), nullable=False),
    sa.Column('retired_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['app_id'], ['app.id'], name=op.f('fk_runtemplate_app_id_app')),
    sa.ForeignKeyConstraint(['company_id'], ['company.id'], name=op.f('fk_runtemplate_company_id_company')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_runtemplate'))
    )
    with op.batch_alter_table('runtemplate', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_runtemplate_app_id'), ['app_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_runtemplate_company_id'), ['company_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_runtemplate_deployment_id'), ['deployment_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_runtemplate_next_schedule'), ['next_schedule'], unique=False)
        batch_op.create_index('uq_runtemplate_company_id_name', ['company_id', 'name'], unique=True, sqlite_where=sa.text('retired_at IS NULL'), postgresql_where=sa.text('retired_at IS NULL'))

    op.create_table('token',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('kind', sa.String(), nullable=False),
    sa.Column('user_id', sa.Integer(), nullable=True),
    sa.Column('pools', sa.JSON(), nullable=False),
    sa.Column('hash', sa.String(), nullable=False),
    sa.Column('expires_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('revoked_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('last_used_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['user_id'], ['user.id'], name=op.f('fk_token_user_id_user')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_token')),
    sa.UniqueConstraint('hash', name=op.f('uq_token_hash'))
    )
    with op.batch_alter_table('token', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_token_user_id'), ['user_id'], unique=False)

    op.create_table('user_role',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('user_id', sa.Integer(), nullable=False),
    sa.Column('role', sa.String(), nullable=False),
    sa.Column('assigned_by', sa.String(), nullable=True),
    sa.Column('assigned_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('expires_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['user_id'], ['user.id'], name=op.f('fk_user_role_user_id_user')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_user_role')),
    sa.UniqueConstraint('user_id', 'role', name=op.f('uq_user_role_user_id_role'))
    )
    with op.batch_alter_table('user_role', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_user_role_user_id'), ['user_id'], unique=False)

    op.create_table('event',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('kind', sa.String(), nullable=False),
    sa.Column('event_source_id', sa.Integer(), nullable=True),
    sa.Column('runtemplate_id', sa.Integer(), nullable=True),
    sa.Column('job_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=True),
    sa.Column('company_id', sa.Integer(), nullable=True),
    sa.Column('inversion', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=True),
    sa.Column('digest', sa.String(), nullable=True),
    sa.Column('evidence', sa.String(), nullable=True),
    sa.Column('operation', sa.String(), nullable=False),
    sa.Column('record_id', sa.String(), nullable=True),
    sa.Column('data', sa.JSON(), nullable=False),
    sa.Column('depth', sa.Integer(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('emitted_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('emission_error', sa.Text(), nullable=True),
    sa.ForeignKeyConstraint(['company_id'], ['company.id'], name=op.f('fk_event_company_id_company')),
    sa.ForeignKeyConstraint(['event_source_id'], ['event_source.id'], name=op.f('fk_event_event_source_id_event_source')),
    sa.ForeignKeyConstraint(['runtemplate_id'], ['runtemplate.id'], name=op.f('fk_event_runtemplate_id_runtemplate')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_event')),
    sa.UniqueConstraint('event_source_id', 'inversion', 'digest', name=op.f('uq_event_event_source_id_inversion_digest')),
    sa.UniqueConstraint('job_id', name=op.f('uq_event_job_id'))
    )
    with op.batch_alter_table('event', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_event_company_id'), ['company_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_event_runtemplate_id'), ['runtemplate_id'], unique=False)
        batch_op.create_index('ix_event_silent', ['id'], unique=False, sqlite_where=sa.text('emitted_at IS NULL'), postgresql_where=sa.text('emitted_at IS NULL'))

    op.create_table('event_rule',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('event_source_id', sa.Integer(), nullable=True),
    sa.Column('runtemplate_source_id', sa.Integer(), nullable=True),
    sa.Column('runtemplate_id', sa.Integer(), nullable=False),
    sa.Column('evidence', sa.String(), nullable=True),
    sa.Column('operation', sa.String(), nullable=False),
    sa.Column('on', sa.String(), nullable=False),
    sa.Column('env_mapping', sa.Text(), nullable=False),
    sa.Column('enabled', sa.Boolean(), nullable=False),
    sa.Column('priority', sa.Integer(), nullable=False),
    sa.Column('automation_id', sa.Uuid(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('labels', sa.JSON(), nullable=False),
    sa.Column('retired_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['event_source_id'], ['event_source.id'], name=op.f('fk_event_rule_event_source_id_event_source')),
    sa.ForeignKeyConstraint(['runtemplate_id'], ['runtemplate.id'], name=op.f('fk_event_rule_runtemplate_id_runtemplate')),
    sa.ForeignKeyConstraint(['runtemplate_source_id'], ['runtemplate.id'], name=op.f('fk_event_rule_runtemplate_source_id_runtemplate')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_event_rule'))
    )
    with op.batch_alter_table('event_rule', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_event_rule_event_source_id'), ['event_source_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_event_rule_runtemplate_id'), ['runtemplate_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_event_rule_runtemplate_source_id'), ['runtemplate_source_id'], unique=False)

    op.create_table('task',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('runtemplate_id', sa.Integer(), nullable=False),
    sa.Column('window_start', sa.DateTime(timezone=True), nullable=False),
    sa.Column('window_end', sa.DateTime(timezone=True), nullable=False),
    sa.Column('deadline', sa.DateTime(timezone=True), nullable=False),
    sa.Column('state', sa.String(), nullable=False),
    sa.Column('reason', sa.String(), nullable=True),
    sa.Column('message', sa.Text(), nullable=True),
    sa.Column('attempts', sa.Integer(), nullable=False),
    sa.Column('catch_up', sa.Boolean(), nullable=False),
    sa.Column('excuse', sa.Text(), nullable=True),
    sa.Column('excused_by', sa.String(), nullable=True),
    sa.Column('fulfilled_by_job_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=True),
    sa.Column('fulfilled_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['runtemplate_id'], ['runtemplate.id'], name=op.f('fk_task_runtemplate_id_runtemplate')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_task')),
    sa.UniqueConstraint('runtemplate_id', 'window_start', name=op.f('uq_task_runtemplate_id_window_start'))
    )
    with op.batch_alter_table('task', schema=None) as batch_op:
        batch_op.create_index('ix_task_state_deadline', ['state', 'deadline'], unique=False)

    op.create_table('delivery',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('event_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('rule_id', sa.Integer(), nullable=False),
    sa.Column('state', sa.String(), nullable=False),
    sa.Column('job_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=True),
    sa.Column('flow_run_id', sa.Uuid(), nullable=True),
    sa.Column('due_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('error', sa.Text(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['event_id'], ['event.id'], name=op.f('fk_delivery_event_id_event'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['rule_id'], ['event_rule.id'], name=op.f('fk_delivery_rule_id_event_rule')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_delivery')),
    sa.UniqueConstraint('event_id', 'rule_id', name=op.f('uq_delivery_event_id_rule_id'))
    )
    with op.batch_alter_table('delivery', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_delivery_job_id'), ['job_id'], unique=False)
        batch_op.create_index('ix_delivery_owed', ['due_at'], unique=False, sqlite_where=sa.text("state = 'owed'"), postgresql_where=sa.text("state = 'owed'"))
        batch_op.create_index(batch_op.f('ix_delivery_rule_id'), ['rule_id'], unique=False)

    op.create_table('job',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('app_id', sa.Integer(), nullable=False),
    sa.Column('company_id', sa.Integer(), nullable=False),
    sa.Column('runtemplate_id', sa.Integer(), nullable=False),
    sa.Column('task_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=True),
    sa.Column('attempt', sa.Integer(), nullable=False),
    sa.Column('retry_of', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=True),
    sa.Column('state', sa.String(), nullable=False),
    sa.Column('severity', sa.String(), nullable=True),
    sa.Column('message', sa.Text(), nullable=True),
    sa.Column('exitcode', sa.Integer(), nullable=True),
    sa.Column('schedule', sa.DateTime(timezone=True), nullable=False),
    sa.Column('schedule_type', sa.String(), nullable=False),
    sa.Column('begin', sa.DateTime(timezone=True), nullable=True),
    sa.Column('end', sa.DateTime(timezone=True), nullable=True),
    sa.Column('executor', sa.String(), nullable=False),
    sa.Column('event_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=True),
    sa.Column('launched_by', sa.Integer(), nullable=True),
    sa.Column('app_version', sa.String(), nullable=True),
    sa.Column('command', sa.Text(), nullable=True),
    sa.Column('env', sa.JSON(), nullable=False),
    sa.Column('undeclared', sa.JSON(), nullable=False),
    sa.Column('overrides', sa.JSON(), nullable=False),
    sa.Column('override_secrets', sa.JSON(), nullable=False),
    sa.Column('policy', sa.JSON(), nullable=False),
    sa.Column('cancel_reason', sa.String(), nullable=True),
    sa.Column('note', sa.Text(), nullable=True),
    sa.Column('flow_run_id', sa.Uuid(), nullable=True),
    sa.Column('run_number', sa.Integer(), nullable=True),
    sa.Column('claim_id', sa.Uuid(), nullable=True),
    sa.Column('worker', sa.String(), nullable=True),
    sa.Column('pid', sa.Integer(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('retired_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['app_id'], ['app.id'], name=op.f('fk_job_app_id_app')),
    sa.ForeignKeyConstraint(['company_id'], ['company.id'], name=op.f('fk_job_company_id_company')),
    sa.ForeignKeyConstraint(['launched_by'], ['user.id'], name=op.f('fk_job_launched_by_user')),
    sa.ForeignKeyConstraint(['retry_of'], ['job.id'], name=op.f('fk_job_retry_of_job')),
    sa.ForeignKeyConstraint(['runtemplate_id'], ['runtemplate.id'], name=op.f('fk_job_runtemplate_id_runtemplate')),
    sa.ForeignKeyConstraint(['task_id'], ['task.id'], name=op.f('fk_job_task_id_task')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_job')),
    sa.UniqueConstraint('claim_id', name=op.f('uq_job_claim_id')),
    sa.UniqueConstraint('flow_run_id', 'run_number', name=op.f('uq_job_flow_run_id_run_number'))
    )
    with op.batch_alter_table('job', schema=None) as batch_op:
        batch_op.create_index('ix_job_active', ['id'], unique=False, sqlite_where=sa.text('retired_at IS NULL'), postgresql_where=sa.text('retired_at IS NULL'))
        batch_op.create_index(batch_op.f('ix_job_app_id'), ['app_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_job_company_id'), ['company_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_job_event_id'), ['event_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_job_flow_run_id'), ['flow_run_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_job_retry_of'), ['retry_of'], unique=False)
        batch_op.create_index(batch_op.f('ix_job_runtemplate_id'), ['runtemplate_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_job_state'), ['state'], unique=False)
        batch_op.create_index(batch_op.f('ix_job_task_id'), ['task_id'], unique=False)
        batch_op.create_index('uq_job_live_flow_run', ['flow_run_id'], unique=True, sqlite_where=sa.text("state = 'running'"), postgresql_where=sa.text("state = 'running'"))
        batch_op.create_index('uq_job_live_task', ['task_id'], unique=True, sqlite_where=sa.text("state = 'running'"), postgresql_where=sa.text("state = 'running'"))

    op.create_table('artifact',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('job_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('path', sa.String(), nullable=False),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('type', sa.String(), nullable=False),
    sa.Column('content_type', sa.String(), nullable=False),
    sa.Column('size', sa.Integer(), nullable=False),
    sa.Column('content', sa.LargeBinary(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['job_id'], ['job.id'], name=op.f('fk_artifact_job_id_job'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_artifact')),
    sa.UniqueConstraint('job_id', 'path', name=op.f('uq_artifact_job_id_path'))
    )
    op.create_table('job_output_line',
    sa.Column('job_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('seq', sa.Integer(), nullable=False),
    sa.Column('stream', sa.String(), nullable=False),
    sa.Column('text', sa.Text(), nullable=False),
    sa.Column('at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['job_id'], ['job.id'], name=op.f('fk_job_output_line_job_id_job'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('job_id', 'seq', name=op.f('pk_job_output_line'))
    )
    op.create_table('lease',
    sa.Column('job_id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('worker', sa.String(), nullable=False),
    sa.Column('claim_id', sa.Uuid(), nullable=False),
    sa.Column('directory', sa.String(), nullable=False),
    sa.Column('renewed_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('ends_by', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['job_id'], ['job.id'], name=op.f('fk_lease_job_id_job'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('job_id', name=op.f('pk_lease'))
    )
    with op.batch_alter_table('lease', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_lease_worker'), ['worker'], unique=False)

    guard_audit_entries()


def downgrade() -> None:
    raise NotImplementedError("the audit trail is never dropped; restore a backup instead")
