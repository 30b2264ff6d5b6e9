{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Tls.Foreign
-- Description : The C shim's functions
-- Stability   : hidden
--
-- One import per function of @cbits/heddle_tls.h@, which says what they do. The steps of a session are unsafe calls:
-- they move bytes, encrypt and decrypt, and their system calls have MSG_DONTWAIT.
--
-- Cost: a step is its cryptography, one system call, and about 5 ns.
-- Owner: the modules above; a session is locked during each call ("Heddle.Tls.Session").
module Heddle.Tls.Foreign
  ( -- * Types of C
    CSite,
    CShared,
    CConn,

    -- * The library
    c_load,

    -- * Sites
    c_siteNew,
    c_siteAlpn,
    c_siteTuning,
    c_siteAuthorities,
    c_siteRoots,
    c_siteAdd,
    c_siteFinish,
    p_siteRelease,

    -- ** Reports
    reportSize,
    reportCode,
    reportIndex,
    reportFrom,
    reportUntil,
    reportNames,
    reportText,

    -- * What sessions share
    c_sharedNew,
    c_sharedRotate,
    c_sharedCounts,
    p_sharedRelease,

    -- * Sessions
    c_accept,
    c_connect,
    c_handshake,
    c_handshakeSafe,
    c_flush,
    c_read,
    c_write,
    c_written,
    c_end,
    c_kernelHas,
    c_toKernel,
    c_kernelWrite,
    c_kernelFile,
    c_free,
    c_fact,
    c_live,
    c_takeSession,
    p_sessionFree,

    -- ** A session's face
    faceHolds,
    faceMade,
    faceSent,
    faceHeavy,
    faceText,

    -- ** Answers
    pattern HandshakeDone,
    pattern Unsent,

    -- * Certificates for development
    c_selfSigned,
  )
where

import Data.Int (Int32, Int64)
import Data.Word (Word8)
import Foreign.C.Types (CChar, CInt (..), CLong (..), CSize (..))
import Foreign.Ptr (FunPtr, Ptr)
import Foreign.Storable (peekByteOff)

-- | @heddle_tls_site@.
data CSite

-- | @heddle_tls_shared@.
data CShared

-- | @heddle_tls_conn@.
data CConn

-- | @sizeof (struct heddle_tls_report)@.
--
-- [Units]: bytes.
reportSize :: Int
reportSize = 296

-- | The fields of a report.
reportCode, reportIndex, reportFrom, reportUntil, reportNames :: Ptr Word8 -> IO Int
reportCode p = fromIntegral <$> (peekByteOff p 0 :: IO Int32)
reportIndex p = fromIntegral <$> (peekByteOff p 4 :: IO Int32)
reportFrom p = fromIntegral <$> (peekByteOff p 8 :: IO Int64)
reportUntil p = fromIntegral <$> (peekByteOff p 16 :: IO Int64)
reportNames p = fromIntegral <$> (peekByteOff p 24 :: IO Int64)

-- | Where the text of a report begins.
--
-- [Units]: bytes.
reportText :: Int
reportText = 36

-- | The fields of a session's face.
faceHolds, faceMade, faceSent, faceHeavy :: Ptr CConn -> IO Int
faceHolds p = peekByteOff p 0
faceMade p = peekByteOff p 8
faceSent p = peekByteOff p 16
faceHeavy p = peekByteOff p 24
{-# INLINE faceHolds #-}
{-# INLINE faceMade #-}
{-# INLINE faceSent #-}
{-# INLINE faceHeavy #-}

-- | Where the text of a face begins.
--
-- [Units]: bytes.
faceText :: Int
faceText = 32

-- | The handshake is over.
pattern HandshakeDone :: Int
pattern HandshakeDone = 1

-- | The socket has not taken all of a flight.
pattern Unsent :: Int
pattern Unsent = 2

-- Safe: reads files.
foreign import ccall safe "heddle_tls_load" c_load :: Ptr CChar -> IO CInt

-- Unsafe: allocates.
foreign import ccall unsafe "heddle_tls_site_new" c_siteNew :: CInt -> CInt -> CInt -> CInt -> IO (Ptr CSite)

-- Unsafe: copies.
foreign import ccall unsafe "heddle_tls_site_alpn" c_siteAlpn :: Ptr CSite -> Ptr Word8 -> CSize -> IO CInt

-- Safe: the first one initialises libssl, which reads its configuration file.
foreign import ccall safe "heddle_tls_site_tuning" c_siteTuning :: Ptr CSite -> Ptr CChar -> Ptr CChar -> Ptr CChar -> Ptr CChar -> IO CInt

-- Safe: parses many certificates.
foreign import ccall safe "heddle_tls_site_authorities" c_siteAuthorities :: Ptr CSite -> Ptr Word8 -> CSize -> Ptr Word8 -> IO CInt

-- Safe: reads files.
foreign import ccall safe "heddle_tls_site_roots" c_siteRoots :: Ptr CSite -> Ptr Word8 -> IO CInt

-- Safe: parses and checks keys, which takes milliseconds.
foreign import ccall safe "heddle_tls_site_add"
  c_siteAdd ::
    Ptr CSite -> Ptr Word8 -> CSize -> Ptr Word8 -> CSize -> Ptr Word8 -> CSize -> Int64 -> Ptr Word8 -> CSize -> Ptr Word8 -> IO CInt

-- Safe: may initialise libssl.
foreign import ccall safe "heddle_tls_site_finish" c_siteFinish :: Ptr CSite -> IO CInt

foreign import ccall "&heddle_tls_site_release" p_siteRelease :: FunPtr (Ptr CSite -> IO ())

-- Safe: walks the chain of secrets, thousands of hashes.
foreign import ccall safe "heddle_tls_shared_new" c_sharedNew :: Ptr Word8 -> CSize -> Int64 -> CInt -> IO (Ptr CShared)

-- Unsafe: a few hashes; its lock is held for as long.
foreign import ccall unsafe "heddle_tls_shared_rotate" c_sharedRotate :: Ptr CShared -> IO ()

-- Unsafe: reads four words.
foreign import ccall unsafe "heddle_tls_shared_counts" c_sharedCounts :: Ptr CShared -> Ptr Int64 -> IO ()

foreign import ccall "&heddle_tls_shared_release" p_sharedRelease :: FunPtr (Ptr CShared -> IO ())

-- Unsafe: allocates and copies.
foreign import ccall unsafe "heddle_tls_accept" c_accept :: Ptr CSite -> Ptr CShared -> Ptr Word8 -> CSize -> IO (Ptr CConn)

-- Unsafe: allocates and copies.
foreign import ccall unsafe "heddle_tls_connect" c_connect :: Ptr CSite -> Ptr CChar -> Ptr () -> IO (Ptr CConn)

-- Unsafe: at most one signature with an elliptic curve, 0.2 ms.
foreign import ccall unsafe "heddle_tls_handshake" c_handshake :: Ptr CConn -> CInt -> IO CLong

-- Safe: a signature with an RSA key takes 0.4 to 4 ms.
foreign import ccall safe "heddle_tls_handshake" c_handshakeSafe :: Ptr CConn -> CInt -> IO CLong

-- Unsafe: MSG_DONTWAIT.
foreign import ccall unsafe "heddle_tls_flush" c_flush :: Ptr CConn -> CInt -> IO CLong

-- Unsafe: MSG_DONTWAIT; decrypts one record.
foreign import ccall unsafe "heddle_tls_read" c_read :: Ptr CConn -> CInt -> Ptr Word8 -> CSize -> CInt -> IO CLong

-- Unsafe: MSG_DONTWAIT; encrypts at most four records.
foreign import ccall unsafe "heddle_tls_write" c_write :: Ptr CConn -> CInt -> Ptr Word8 -> CSize -> Ptr Word8 -> CSize -> IO CLong

-- Unsafe: MSG_DONTWAIT.
foreign import ccall unsafe "heddle_tls_written" c_written :: Ptr CConn -> CInt -> IO CLong

-- Unsafe: MSG_DONTWAIT.
foreign import ccall unsafe "heddle_tls_end" c_end :: Ptr CConn -> CInt -> IO CLong

-- Safe: the kernel may load a module.
foreign import ccall safe "heddle_tls_kernel_has" c_kernelHas :: IO CInt

-- Safe: the kernel may load a cipher.
foreign import ccall safe "heddle_tls_to_kernel" c_toKernel :: Ptr CConn -> CInt -> IO CInt

-- Unsafe: MSG_DONTWAIT; the kernel encrypts at most four records.
foreign import ccall unsafe "heddle_tls_kernel_write" c_kernelWrite :: Ptr CConn -> CInt -> Ptr Word8 -> CSize -> IO CLong

-- Unsafe: writes a word.
foreign import ccall unsafe "heddle_tls_kernel_file" c_kernelFile :: Ptr CConn -> CInt -> IO CLong

-- Unsafe: frees memory.
foreign import ccall unsafe "heddle_tls_free" c_free :: Ptr CConn -> IO ()

-- Unsafe: copies.
foreign import ccall unsafe "heddle_tls_fact" c_fact :: Ptr CConn -> CInt -> Ptr Word8 -> CSize -> IO CSize

-- Unsafe: reads a word.
foreign import ccall unsafe "heddle_tls_live" c_live :: IO Int64

-- Unsafe: moves a pointer.
foreign import ccall unsafe "heddle_tls_take_session" c_takeSession :: Ptr CConn -> IO (Ptr ())

foreign import ccall "&heddle_tls_session_free" p_sessionFree :: FunPtr (Ptr () -> IO ())

-- Safe: makes a key.
foreign import ccall safe "heddle_tls_self_signed"
  c_selfSigned :: Ptr CChar -> Ptr CChar -> CInt -> Ptr Word8 -> Ptr CSize -> Ptr Word8 -> Ptr CSize -> Ptr CChar -> IO CInt
