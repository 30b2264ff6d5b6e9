{-# LANGUAGE DataKinds #-}
{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE GADTs #-}
{-# LANGUAGE PatternSynonyms #-}
{-# LANGUAGE PolyKinds #-}
{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE TypeApplications #-}
{-# LANGUAGE TypeFamilies #-}
-- see Note [Static forms that are lost]
{-# OPTIONS_GHC -fno-do-lambda-eta-expansion #-}

-- |
-- Module      : Heddle.MPI.Closure
-- Description : Functions as messages
-- Stability   : experimental
--
-- A closure is a function of the program, named by the key of a static pointer, with arguments that
-- are messages or closures themselves:
--
-- > {-# LANGUAGE StaticPointers #-}
-- >
-- > primesBelow :: Int -> [Int]
-- >
-- > task :: Int -> Closure [Int]
-- > task n = apply (closure (static (code primesBelow))) (argument (static (taking id)) n)
-- >
-- > send commWorld 1 unitTag (task 1000)
-- > ...
-- > (f, _) <- recv commWorld 0 unitTag
-- > print (unclosure f :: [Int])
--
-- @task = argument (static (taking primesBelow))@ has the same effect.
--
-- Before it runs anything, the receiver checks that the message is from the same program, that the
-- program has every key, that the types of all parts fit together, and that the whole has the
-- expected type. It cannot detect the key of a static pointer to something other than 'Code', so
-- processes of a job must trust each other.
--
-- Cost: about 100 bytes for each function. The program's fingerprint is computed once from its
-- executable, in some milliseconds per megabyte.
-- Owner: values.
module Heddle.MPI.Closure
  ( -- * Code that can be sent
    Code,
    Form (..),
    code,
    taking,

    -- * Closures
    Closure,
    unclosure,
    closure,
    argument,
    apply,
    compose,

    -- * The program
    buildIdentity,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Internal qualified as Bytes (create)
import Data.ByteString.Unsafe qualified as Bytes (unsafeUseAsCString)
import Data.Kind (Type)
import Data.Type.Equality ((:~~:) (HRefl))
import Data.Typeable (Typeable)
import Data.Word (Word64)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (castPtr)
import GHC.Fingerprint (Fingerprint (..))
import GHC.Generics (Generic)
import GHC.StaticPtr (StaticPtr, deRefStaticPtr, staticKey, unsafeLookupStaticPtr)
import Heddle.MPI.Internal.Message
import Heddle.MPI.Internal.Message.Codec (checkedCodec)
import Heddle.MPI.Internal.ProgramFingerprint
import Heddle.Prim.Buffer (bufferPtr, keepAlive, newBuffer)
import Heddle.Prim.Unsafe (unsafePure)
import Type.Reflection (TypeRep, eqTypeRep, typeRep, typeRepKind, pattern Fun)

-- | The form of code: a value, or a function of a message.
data Form
  = -- | A value as it is, by 'code'.
    Whole
  | -- | A function that goes with its argument, by 'taking'.
    Taking

-- | Code that can be sent because a static pointer refers to it.
data Code (form :: Form) a where
  WholeCode :: !(TypeRep a) -> a -> Code 'Whole a
  TakingCode :: Message e => !(TypeRep a) -> (e -> a) -> Code 'Taking (e -> a)

-- | A value of a type without variables, usually a function.
code :: Typeable a => a -> Code 'Whole a
code = WholeCode typeRep

-- | A function whose argument is sent with it.
taking :: (Message e, Typeable a) => (e -> a) -> Code 'Taking (e -> a)
taking = TakingCode typeRep

-- | A value that can be sent although it is, or contains, a function.
data Closure a = Closure Tree a

-- | The closure's value. A received closure of the wrong type has already been refused by 'Message'.
unclosure :: Closure a -> a
unclosure (Closure _ a) = a

-- The structure of a closure.
data Tree
  = Key !Word64 !Word64
  | Bound !Word64 !Word64 !ByteString
  | Applied !Tree !Tree
  | Composed !Tree !Tree
  deriving stock (Generic)
  deriving anyclass (Message)

-- | Code of the program: @closure (static (code f))@.
closure :: StaticPtr (Code 'Whole a) -> Closure a
closure pointer = case deRefStaticPtr pointer of
  WholeCode _ a -> Closure (uncurry Key (keyOf pointer)) a

-- | Code with its argument: @argument (static (taking f)) x@.
--
-- [Cost]: encodes the argument when the closure is sent.
-- [Throws]: what evaluating the argument throws, when the closure is sent.
argument :: StaticPtr (Code 'Taking (e -> a)) -> e -> Closure a
argument pointer = case deRefStaticPtr pointer of
  TakingCode _ f -> \e -> Closure (uncurry Bound (keyOf pointer) (encoded e)) (f e)
{-# NOINLINE argument #-} -- see Note [Static forms that are lost]

-- | Apply a function to a value, both of them closures.
apply :: Closure (a -> b) -> Closure a -> Closure b
apply (Closure s f) (Closure t a) = Closure (Applied s t) (f a)

-- | Compose two functions, as with '.'.
compose :: Closure (b -> c) -> Closure (a -> b) -> Closure (a -> c)
compose (Closure s f) (Closure t g) = Closure (Composed s t) (f . g)

keyOf :: StaticPtr a -> (Word64, Word64)
keyOf pointer = let Fingerprint a b = staticKey pointer in (a, b)

-- The bytes of a message, computed on demand.
encoded :: Message e => e -> ByteString
encoded e = unsafePure $ do
  (memory, n) <- encode e >>= flatten
  Bytes.create n (\p -> copyBytes p (bufferPtr memory) n) <* keepAlive memory

decoded :: Message e => ByteString -> Either DecodeProblem e
decoded bytes = unsafePure $ do
  let n = Bytes.length bytes
  memory <- newBuffer (max 16 n)
  Bytes.unsafeUseAsCString bytes (\p -> copyBytes (bufferPtr memory) (castPtr p) n)
  decode memory n

-- | This program's fingerprint. Closures can be exchanged only between processes with equal
-- fingerprints.
--
-- [Cost]: reads the executable the first time.
buildIdentity :: String
buildIdentity = show thisProgram

-- Receiving ------------------------------------------------------------------

-- The message of a closure; the program's fingerprint comes first.
data Wire = Wire !ProgramFingerprint !Tree
  deriving stock (Generic)
  deriving anyclass (Message)

-- | Within one program; the type is checked.
instance Typeable a => Message (Closure a) where
  codec = checkedCodec opened (\(Closure tree _) -> Wire thisProgram tree) codec
    where
      opened (Wire theirs tree) = unsafePure $ do
        sameProgram "closure" "a closure" theirs
        built <- build tree
        pure $ case built of
          Left problem -> Left problem
          Right (Built have a) -> case eqTypeRep have want of
            Just HRefl -> Right (Closure tree a)
            Nothing -> Left ("expected a closure of type " ++ show want ++ ", found one of type " ++ show have)
      want = typeRep @a

-- A value with its type.
data Built = forall (a :: Type). Built !(TypeRep a) a

-- Check the types part by part, without running anything.
build :: Tree -> IO (Either String Built)
build = \case
  Key a b ->
    withKey a b $ \case
      WholeCode type' value -> Right (Built type' value)
      TakingCode _ _ -> Left "expected the argument of a closure's function, found none"
  Bound a b bytes ->
    withKey a b $ \case
      TakingCode type' f -> case decoded bytes of
        Right e -> Right (Built type' (f e))
        Left problem ->
          Left $
            "expected the argument of a closure, found otherwise at its byte " ++ show (problemOffset problem) ++ ": " ++ problemReason problem
      WholeCode type' _ -> Left ("expected a function that takes an argument in a closure, found one of type " ++ show type')
  Applied s t -> combined s t applied
  Composed s t -> combined s t composed
  where
    combined s t f = do
      x <- build s
      y <- build t
      pure (x >>= \x' -> y >>= f x')

applied, composed :: Built -> Built -> Either String Built
applied (Built function f) (Built have a) = case function of
  Fun want result
    | Just HRefl <- eqTypeRep want have,
      Just HRefl <- eqTypeRep (typeRepKind result) (typeRep @Type) ->
      Right (Built result (f a))
  _ -> Left ("expected a function of " ++ show have ++ " in a closure, found " ++ show function)
composed (Built later f) (Built sooner g) = case (later, sooner) of
  (Fun want result, Fun from between)
    | Just HRefl <- eqTypeRep want between,
      Just HRefl <- eqTypeRep (typeRepKind result) (typeRep @Type),
      Just HRefl <- eqTypeRep (typeRepKind between) (typeRep @Type),
      Just HRefl <- eqTypeRep (typeRepKind from) (typeRep @Type) ->
      Right (Built (Fun from result) (f . g))
  _ -> Left ("expected functions that fit one behind the other in a closure, found " ++ show later ++ " after " ++ show sooner)

-- Look up the code of a key.
withKey :: Word64 -> Word64 -> (forall (form :: Form) (a :: Type). Code form a -> Either String Built) -> IO (Either String Built)
withKey a b use =
  unsafeLookupStaticPtr (Fingerprint a b) >>= \case
    Nothing -> pure (Left ("expected the key of a static pointer of this program, found " ++ show (Fingerprint a b)))
    Just pointer -> pure (use (deRefStaticPtr (pointer :: StaticPtr (Code Unknown Unknown))))

-- The form and type of a function whose fingerprint has not been compared yet.
type family Unknown :: k where

-- Note [Static forms that are lost]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- GHC 9.0 floats static forms to the top of their module and exports their symbols, so that the
-- table of static pointers can refer to them. If 'argument' had two parameters,
-- @plusC = argument (static (taking plus))@ would be a partial application, whose argument gets a
-- binding of its own first; that is not exported, and the program does not link ("undefined
-- reference to r8X8K_closure"). So 'argument' has one parameter, and is neither eta-expanded nor
-- inlined.
