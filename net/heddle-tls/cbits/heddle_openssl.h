/*
 * libssl and libcrypto, loaded when the first certificate or setting is read. Linked in the usual way they take 0.8 ms of every start
 * of a program, most of it the pages that their relocations write, also where nothing speaks TLS.
 *
 * After this header, a function of theirs is the member of `heddle_openssl` that has its name. A function that is missing here is
 * an undefined symbol when a program is linked; add it to both lists.
 */
#ifndef HEDDLE_OPENSSL_H
#define HEDDLE_OPENSSL_H

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#define HEDDLE_OPENSSL_FUNCTIONS(F) \
    F(ASN1_OCTET_STRING_free) F(ASN1_STRING_get0_data) F(ASN1_STRING_length) F(ASN1_TIME_to_tm) F(BIO_clear_flags) \
    F(BIO_ctrl) F(BIO_free) F(BIO_get_data) F(BIO_get_new_index) F(BIO_meth_new) F(BIO_meth_set_create) \
    F(BIO_meth_set_ctrl) F(BIO_meth_set_read_ex) F(BIO_meth_set_write_ex) F(BIO_new) F(BIO_new_mem_buf) F(BIO_s_mem) \
    F(BIO_set_data) F(BIO_set_flags) F(BIO_set_init) F(BN_bin2bn) F(BN_clear_bit) F(BN_free) F(BN_to_ASN1_INTEGER) \
    F(CRYPTO_free) F(CRYPTO_malloc) F(CRYPTO_memcmp) F(CRYPTO_memdup) F(CRYPTO_realloc) F(CRYPTO_strdup) \
    F(CRYPTO_zalloc) F(ERR_clear_error) F(ERR_get_error_all) F(ERR_peek_error) F(ERR_peek_last_error) \
    F(ERR_reason_error_string) F(EVP_CIPHER_fetch) F(EVP_DecryptInit_ex) F(EVP_Digest) F(EVP_EncryptInit_ex) \
    F(EVP_MAC_CTX_set_params) F(EVP_PKEY_Q_keygen) F(EVP_PKEY_free) F(EVP_PKEY_get_base_id) F(EVP_sha256) \
    F(GENERAL_NAMES_free) F(GENERAL_NAME_get0_value) F(HMAC) F(OCSP_BASICRESP_free) F(OCSP_CERTID_free) \
    F(OCSP_RESPONSE_free) F(OCSP_basic_verify) F(OCSP_cert_to_id) F(OCSP_resp_find_status) \
    F(OCSP_response_get1_basic) F(OCSP_response_status) F(OPENSSL_cleanse) F(OPENSSL_sk_free) F(OPENSSL_sk_new_null) \
    F(OPENSSL_sk_num) F(OPENSSL_sk_pop_free) F(OPENSSL_sk_push) F(OPENSSL_sk_shift) F(OPENSSL_sk_value) \
    F(OSSL_PARAM_construct_end) F(OSSL_PARAM_construct_octet_string) F(OSSL_PARAM_construct_utf8_string) \
    F(PEM_read_bio_PrivateKey) F(PEM_read_bio_X509_AUX) F(PEM_write_bio_PKCS8PrivateKey) F(PEM_write_bio_X509) \
    F(RAND_bytes) F(RAND_priv_bytes) F(SSL_CIPHER_standard_name) F(SSL_CTX_callback_ctrl) \
    F(SSL_CTX_check_private_key) F(SSL_CTX_clear_options) F(SSL_CTX_ctrl) F(SSL_CTX_free) F(SSL_CTX_new) \
    F(SSL_CTX_sess_set_new_cb) F(SSL_CTX_set1_cert_store) F(SSL_CTX_set_alpn_protos) F(SSL_CTX_set_alpn_select_cb) \
    F(SSL_CTX_set_cipher_list) F(SSL_CTX_set_ciphersuites) F(SSL_CTX_set_client_CA_list) \
    F(SSL_CTX_set_max_early_data) F(SSL_CTX_set_num_tickets) F(SSL_CTX_set_options) F(SSL_CTX_set_security_level) \
    F(SSL_CTX_set_session_id_context) F(SSL_CTX_set_session_ticket_cb) F(SSL_CTX_set_timeout) \
    F(SSL_CTX_set_tlsext_ticket_key_evp_cb) F(SSL_CTX_set_verify) F(SSL_CTX_use_PrivateKey) \
    F(SSL_CTX_use_certificate) F(SSL_SESSION_free) F(SSL_SESSION_get0_ticket_appdata) F(SSL_SESSION_is_resumable) \
    F(SSL_SESSION_set1_ticket_appdata) F(SSL_clear_options) F(SSL_ctrl) F(SSL_do_handshake) F(SSL_dup_CA_list) \
    F(SSL_free) F(SSL_get0_alpn_selected) F(SSL_get0_param) F(SSL_get0_peer_certificate) F(SSL_get1_session) \
    F(SSL_get_SSL_CTX) F(SSL_get_current_cipher) F(SSL_get_error) F(SSL_get_ex_data) F(SSL_get_servername) \
    F(SSL_get_session) F(SSL_get_verify_result) F(SSL_get_version) F(SSL_has_pending) F(SSL_new) F(SSL_read_ex) \
    F(SSL_session_reused) F(SSL_set1_host) F(SSL_set_SSL_CTX) F(SSL_set_accept_state) F(SSL_set_bio) \
    F(SSL_set_connect_state) F(SSL_set_ex_data) F(SSL_set_hostflags) F(SSL_set_msg_callback) F(SSL_set_options) \
    F(SSL_set_session) F(SSL_set_shutdown) F(SSL_shutdown) F(SSL_version) F(SSL_write_ex) F(TLS_client_method) \
    F(TLS_server_method) F(X509V3_EXT_conf_nid) F(X509V3_set_ctx) F(X509_EXTENSION_free) \
    F(X509_NAME_add_entry_by_txt) F(X509_NAME_dup) F(X509_NAME_free) F(X509_NAME_get_text_by_NID) \
    F(X509_NAME_print_ex) F(X509_STORE_add_cert) F(X509_STORE_free) F(X509_STORE_load_file) F(X509_STORE_new) \
    F(X509_STORE_set_flags) F(X509_VERIFY_PARAM_set1_ip_asc) F(X509_add_ext) F(X509_check_issued) \
    F(X509_check_private_key) F(X509_free) F(X509_get0_notAfter) F(X509_get0_notBefore) \
    F(X509_get_default_cert_file) F(X509_get_default_cert_file_env) F(X509_get_ext_d2i) F(X509_get_serialNumber) \
    F(X509_get_subject_name) F(X509_getm_notAfter) F(X509_getm_notBefore) F(X509_gmtime_adj) F(X509_new) \
    F(X509_set_issuer_name) F(X509_set_pubkey) F(X509_set_version) F(X509_sign) F(X509_time_adj_ex) F(X509_up_ref) \
    F(X509_verify_cert_error_string) F(a2i_IPADDRESS) F(d2i_OCSP_RESPONSE) F(d2i_X509) F(i2d_X509)

struct heddle_openssl {
#define HEDDLE_OPENSSL_MEMBER(name) __typeof__(name) *name;
    HEDDLE_OPENSSL_FUNCTIONS(HEDDLE_OPENSSL_MEMBER)
#undef HEDDLE_OPENSSL_MEMBER
};

extern struct heddle_openssl heddle_openssl;

#define ASN1_OCTET_STRING_free heddle_openssl.ASN1_OCTET_STRING_free
#define ASN1_STRING_get0_data heddle_openssl.ASN1_STRING_get0_data
#define ASN1_STRING_length heddle_openssl.ASN1_STRING_length
#define ASN1_TIME_to_tm heddle_openssl.ASN1_TIME_to_tm
#define BIO_clear_flags heddle_openssl.BIO_clear_flags
#define BIO_ctrl heddle_openssl.BIO_ctrl
#define BIO_free heddle_openssl.BIO_free
#define BIO_get_data heddle_openssl.BIO_get_data
#define BIO_get_new_index heddle_openssl.BIO_get_new_index
#define BIO_meth_new heddle_openssl.BIO_meth_new
#define BIO_meth_set_create heddle_openssl.BIO_meth_set_create
#define BIO_meth_set_ctrl heddle_openssl.BIO_meth_set_ctrl
#define BIO_meth_set_read_ex heddle_openssl.BIO_meth_set_read_ex
#define BIO_meth_set_write_ex heddle_openssl.BIO_meth_set_write_ex
#define BIO_new heddle_openssl.BIO_new
#define BIO_new_mem_buf heddle_openssl.BIO_new_mem_buf
#define BIO_s_mem heddle_openssl.BIO_s_mem
#define BIO_set_data heddle_openssl.BIO_set_data
#define BIO_set_flags heddle_openssl.BIO_set_flags
#define BIO_set_init heddle_openssl.BIO_set_init
#define BN_bin2bn heddle_openssl.BN_bin2bn
#define BN_clear_bit heddle_openssl.BN_clear_bit
#define BN_free heddle_openssl.BN_free
#define BN_to_ASN1_INTEGER heddle_openssl.BN_to_ASN1_INTEGER
#define CRYPTO_free heddle_openssl.CRYPTO_free
#define CRYPTO_malloc heddle_openssl.CRYPTO_malloc
#define CRYPTO_memcmp heddle_openssl.CRYPTO_memcmp
#define CRYPTO_memdup heddle_openssl.CRYPTO_memdup
#define CRYPTO_realloc heddle_openssl.CRYPTO_realloc
#define CRYPTO_strdup heddle_openssl.CRYPTO_strdup
#define CRYPTO_zalloc heddle_openssl.CRYPTO_zalloc
#define ERR_clear_error heddle_openssl.ERR_clear_error
#define ERR_get_error_all heddle_openssl.ERR_get_error_all
#define ERR_peek_error heddle_openssl.ERR_peek_error
#define ERR_peek_last_error heddle_openssl.ERR_peek_last_error
#define ERR_reason_error_string heddle_openssl.ERR_reason_error_string
#define EVP_CIPHER_fetch heddle_openssl.EVP_CIPHER_fetch
#define EVP_DecryptInit_ex heddle_openssl.EVP_DecryptInit_ex
#define EVP_Digest heddle_openssl.EVP_Digest
#define EVP_EncryptInit_ex heddle_openssl.EVP_EncryptInit_ex
#define EVP_MAC_CTX_set_params heddle_openssl.EVP_MAC_CTX_set_params
#define EVP_PKEY_Q_keygen heddle_openssl.EVP_PKEY_Q_keygen
#define EVP_PKEY_free heddle_openssl.EVP_PKEY_free
#define EVP_PKEY_get_base_id heddle_openssl.EVP_PKEY_get_base_id
#define EVP_sha256 heddle_openssl.EVP_sha256
#define GENERAL_NAMES_free heddle_openssl.GENERAL_NAMES_free
#define GENERAL_NAME_get0_value heddle_openssl.GENERAL_NAME_get0_value
#define HMAC heddle_openssl.HMAC
#define OCSP_BASICRESP_free heddle_openssl.OCSP_BASICRESP_free
#define OCSP_CERTID_free heddle_openssl.OCSP_CERTID_free
#define OCSP_RESPONSE_free heddle_openssl.OCSP_RESPONSE_free
#define OCSP_basic_verify heddle_openssl.OCSP_basic_verify
#define OCSP_cert_to_id heddle_openssl.OCSP_cert_to_id
#define OCSP_resp_find_status heddle_openssl.OCSP_resp_find_status
#define OCSP_response_get1_basic heddle_openssl.OCSP_response_get1_basic
#define OCSP_response_status heddle_openssl.OCSP_response_status
#define OPENSSL_cleanse heddle_openssl.OPENSSL_cleanse
#define OPENSSL_sk_free heddle_openssl.OPENSSL_sk_free
#define OPENSSL_sk_new_null heddle_openssl.OPENSSL_sk_new_null
#define OPENSSL_sk_num heddle_openssl.OPENSSL_sk_num
#define OPENSSL_sk_pop_free heddle_openssl.OPENSSL_sk_pop_free
#define OPENSSL_sk_push heddle_openssl.OPENSSL_sk_push
#define OPENSSL_sk_shift heddle_openssl.OPENSSL_sk_shift
#define OPENSSL_sk_value heddle_openssl.OPENSSL_sk_value
#define OSSL_PARAM_construct_end heddle_openssl.OSSL_PARAM_construct_end
#define OSSL_PARAM_construct_octet_string heddle_openssl.OSSL_PARAM_construct_octet_string
#define OSSL_PARAM_construct_utf8_string heddle_openssl.OSSL_PARAM_construct_utf8_string
#define PEM_read_bio_PrivateKey heddle_openssl.PEM_read_bio_PrivateKey
#define PEM_read_bio_X509_AUX heddle_openssl.PEM_read_bio_X509_AUX
#define PEM_write_bio_PKCS8PrivateKey heddle_openssl.PEM_write_bio_PKCS8PrivateKey
#define PEM_write_bio_X509 heddle_openssl.PEM_write_bio_X509
#define RAND_bytes heddle_openssl.RAND_bytes
#define RAND_priv_bytes heddle_openssl.RAND_priv_bytes
#define SSL_CIPHER_standard_name heddle_openssl.SSL_CIPHER_standard_name
#define SSL_CTX_callback_ctrl heddle_openssl.SSL_CTX_callback_ctrl
#define SSL_CTX_check_private_key heddle_openssl.SSL_CTX_check_private_key
#define SSL_CTX_clear_options heddle_openssl.SSL_CTX_clear_options
#define SSL_CTX_ctrl heddle_openssl.SSL_CTX_ctrl
#define SSL_CTX_free heddle_openssl.SSL_CTX_free
#define SSL_CTX_new heddle_openssl.SSL_CTX_new
#define SSL_CTX_sess_set_new_cb heddle_openssl.SSL_CTX_sess_set_new_cb
#define SSL_CTX_set1_cert_store heddle_openssl.SSL_CTX_set1_cert_store
#define SSL_CTX_set_alpn_protos heddle_openssl.SSL_CTX_set_alpn_protos
#define SSL_CTX_set_alpn_select_cb heddle_openssl.SSL_CTX_set_alpn_select_cb
#define SSL_CTX_set_cipher_list heddle_openssl.SSL_CTX_set_cipher_list
#define SSL_CTX_set_ciphersuites heddle_openssl.SSL_CTX_set_ciphersuites
#define SSL_CTX_set_client_CA_list heddle_openssl.SSL_CTX_set_client_CA_list
#define SSL_CTX_set_max_early_data heddle_openssl.SSL_CTX_set_max_early_data
#define SSL_CTX_set_num_tickets heddle_openssl.SSL_CTX_set_num_tickets
#define SSL_CTX_set_options heddle_openssl.SSL_CTX_set_options
#define SSL_CTX_set_security_level heddle_openssl.SSL_CTX_set_security_level
#define SSL_CTX_set_session_id_context heddle_openssl.SSL_CTX_set_session_id_context
#define SSL_CTX_set_session_ticket_cb heddle_openssl.SSL_CTX_set_session_ticket_cb
#define SSL_CTX_set_timeout heddle_openssl.SSL_CTX_set_timeout
#define SSL_CTX_set_tlsext_ticket_key_evp_cb heddle_openssl.SSL_CTX_set_tlsext_ticket_key_evp_cb
#define SSL_CTX_set_verify heddle_openssl.SSL_CTX_set_verify
#define SSL_CTX_use_PrivateKey heddle_openssl.SSL_CTX_use_PrivateKey
#define SSL_CTX_use_certificate heddle_openssl.SSL_CTX_use_certificate
#define SSL_SESSION_free heddle_openssl.SSL_SESSION_free
#define SSL_SESSION_get0_ticket_appdata heddle_openssl.SSL_SESSION_get0_ticket_appdata
#define SSL_SESSION_is_resumable heddle_openssl.SSL_SESSION_is_resumable
#define SSL_SESSION_set1_ticket_appdata heddle_openssl.SSL_SESSION_set1_ticket_appdata
#define SSL_clear_options heddle_openssl.SSL_clear_options
#define SSL_ctrl heddle_openssl.SSL_ctrl
#define SSL_do_handshake heddle_openssl.SSL_do_handshake
#define SSL_dup_CA_list heddle_openssl.SSL_dup_CA_list
#define SSL_free heddle_openssl.SSL_free
#define SSL_get0_alpn_selected heddle_openssl.SSL_get0_alpn_selected
#define SSL_get0_param heddle_openssl.SSL_get0_param
#define SSL_get0_peer_certificate heddle_openssl.SSL_get0_peer_certificate
#define SSL_get1_session heddle_openssl.SSL_get1_session
#define SSL_get_SSL_CTX heddle_openssl.SSL_get_SSL_CTX
#define SSL_get_current_cipher heddle_openssl.SSL_get_current_cipher
#define SSL_get_error heddle_openssl.SSL_get_error
#define SSL_get_ex_data heddle_openssl.SSL_get_ex_data
#define SSL_get_servername heddle_openssl.SSL_get_servername
#define SSL_get_session heddle_openssl.SSL_get_session
#define SSL_get_verify_result heddle_openssl.SSL_get_verify_result
#define SSL_get_version heddle_openssl.SSL_get_version
#define SSL_has_pending heddle_openssl.SSL_has_pending
#define SSL_new heddle_openssl.SSL_new
#define SSL_read_ex heddle_openssl.SSL_read_ex
#define SSL_session_reused heddle_openssl.SSL_session_reused
#define SSL_set1_host heddle_openssl.SSL_set1_host
#define SSL_set_SSL_CTX heddle_openssl.SSL_set_SSL_CTX
#define SSL_set_accept_state heddle_openssl.SSL_set_accept_state
#define SSL_set_bio heddle_openssl.SSL_set_bio
#define SSL_set_connect_state heddle_openssl.SSL_set_connect_state
#define SSL_set_ex_data heddle_openssl.SSL_set_ex_data
#define SSL_set_hostflags heddle_openssl.SSL_set_hostflags
#define SSL_set_msg_callback heddle_openssl.SSL_set_msg_callback
#define SSL_set_options heddle_openssl.SSL_set_options
#define SSL_set_session heddle_openssl.SSL_set_session
#define SSL_set_shutdown heddle_openssl.SSL_set_shutdown
#define SSL_shutdown heddle_openssl.SSL_shutdown
#define SSL_version heddle_openssl.SSL_version
#define SSL_write_ex heddle_openssl.SSL_write_ex
#define TLS_client_method heddle_openssl.TLS_client_method
#define TLS_server_method heddle_openssl.TLS_server_method
#define X509V3_EXT_conf_nid heddle_openssl.X509V3_EXT_conf_nid
#define X509V3_set_ctx heddle_openssl.X509V3_set_ctx
#define X509_EXTENSION_free heddle_openssl.X509_EXTENSION_free
#define X509_NAME_add_entry_by_txt heddle_openssl.X509_NAME_add_entry_by_txt
#define X509_NAME_dup heddle_openssl.X509_NAME_dup
#define X509_NAME_free heddle_openssl.X509_NAME_free
#define X509_NAME_get_text_by_NID heddle_openssl.X509_NAME_get_text_by_NID
#define X509_NAME_print_ex heddle_openssl.X509_NAME_print_ex
#define X509_STORE_add_cert heddle_openssl.X509_STORE_add_cert
#define X509_STORE_free heddle_openssl.X509_STORE_free
#define X509_STORE_load_file heddle_openssl.X509_STORE_load_file
#define X509_STORE_new heddle_openssl.X509_STORE_new
#define X509_STORE_set_flags heddle_openssl.X509_STORE_set_flags
#define X509_VERIFY_PARAM_set1_ip_asc heddle_openssl.X509_VERIFY_PARAM_set1_ip_asc
#define X509_add_ext heddle_openssl.X509_add_ext
#define X509_check_issued heddle_openssl.X509_check_issued
#define X509_check_private_key heddle_openssl.X509_check_private_key
#define X509_free heddle_openssl.X509_free
#define X509_get0_notAfter heddle_openssl.X509_get0_notAfter
#define X509_get0_notBefore heddle_openssl.X509_get0_notBefore
#define X509_get_default_cert_file heddle_openssl.X509_get_default_cert_file
#define X509_get_default_cert_file_env heddle_openssl.X509_get_default_cert_file_env
#define X509_get_ext_d2i heddle_openssl.X509_get_ext_d2i
#define X509_get_serialNumber heddle_openssl.X509_get_serialNumber
#define X509_get_subject_name heddle_openssl.X509_get_subject_name
#define X509_getm_notAfter heddle_openssl.X509_getm_notAfter
#define X509_getm_notBefore heddle_openssl.X509_getm_notBefore
#define X509_gmtime_adj heddle_openssl.X509_gmtime_adj
#define X509_new heddle_openssl.X509_new
#define X509_set_issuer_name heddle_openssl.X509_set_issuer_name
#define X509_set_pubkey heddle_openssl.X509_set_pubkey
#define X509_set_version heddle_openssl.X509_set_version
#define X509_sign heddle_openssl.X509_sign
#define X509_time_adj_ex heddle_openssl.X509_time_adj_ex
#define X509_up_ref heddle_openssl.X509_up_ref
#define X509_verify_cert_error_string heddle_openssl.X509_verify_cert_error_string
#define a2i_IPADDRESS heddle_openssl.a2i_IPADDRESS
#define d2i_OCSP_RESPONSE heddle_openssl.d2i_OCSP_RESPONSE
#define d2i_X509 heddle_openssl.d2i_X509
#define i2d_X509 heddle_openssl.i2d_X509

#endif
