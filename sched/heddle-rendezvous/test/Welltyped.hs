{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE FlexibleInstances #-}
{-# LANGUAGE MultiParamTypeClasses #-}
{-# LANGUAGE TypeFamilies #-}
{-# LANGUAGE TypeOperators #-}
{-# LANGUAGE UndecidableInstances #-}

-- | The twins of the programs in "Mistyped": the same but for the mistake.
module Welltyped
  ( endOutsideItsBranch,
    parentsEndCaptured,
    parentsChannelCaptured,
    siblingsEnd,
    sendOnReadersEnd,
    recvOnWritersEnd,
    sendOnChannel,
    recvOnChannel,
    sendOnGrant,
    grantEndOfOther,
    writingOfReadersEnd,
    channelOutOfRun,
    channelOfOtherRun,
    worldOutOfRun,
    worldInPureRun,
    parentsWorldCaptured,
    effectWithoutWorld,
    ioInDet,
    wrongElement,
    wrongResult,
    closedWithEnd,
    closedWithChannel,
    branchesCoerced,
    grantOfOtherShape,
    grantOfNumber,
    grantOfFunction,
    grantOfChannel,
    grantOfNumbers,
    grantWithoutGeneric,
    givenWithoutGeneric,
    fieldThatIsNoGrant,
    grantOfOtherConstructors,
    grantOfFewerFields,
  )
where

import Control.Monad (void)
import Data.Coerce (coerce)
import GHC.Generics (Generic)
import Heddle.Prim.Exception (evaluate)
import Heddle.Rendezvous

{- HLINT ignore "Avoid lambda" -}
{- HLINT ignore "Avoid lambda using `infix`" -}
-- So that what the programs differ in stands out.

endOutsideItsBranch :: IO ()
endOutsideItsBranch = evaluate $
  runDet $ do
    c <- newChan "c"
    par (branch (out c) (\o -> send o 'x'))

parentsEndCaptured :: IO ()
parentsEndCaptured = evaluate $
  runDet $ do
    c <- newChan "c"
    par (branch (out c) (\o -> par (branch o (\o' -> send o' 'x'))))

parentsChannelCaptured :: IO ()
parentsChannelCaptured = evaluate $
  runDet $ do
    c <- newChan "c"
    par (branch (out c) (\o -> par (branch [o] (mapM_ (\o' -> send o' 'x')))))

siblingsEnd :: IO ()
siblingsEnd = evaluate $
  runDet $ do
    c <- newChan "c"
    x <- par (branch (inp c) (\i -> recv i) <* branch (out c) (\o -> send o 'x'))
    par (branch () (\() -> x `seq` pure ()))

sendOnReadersEnd :: IO ()
sendOnReadersEnd = evaluate $
  runDet $ do
    c <- newChan "c"
    par (branch (out c) (\i -> send i 'x'))

recvOnWritersEnd :: IO ()
recvOnWritersEnd = evaluate $
  runDet $ do
    c <- newChan "c"
    void (par (branch (inp c) (\o -> recv o >>= \x -> pure (x :: Char)) <* branch (out c) (\o -> send o 'x')))

sendOnChannel :: IO ()
sendOnChannel = evaluate $
  runDet $ do
    c <- newChan "c"
    par (branch (out c) (\o -> send o 'x'))

recvOnChannel :: IO ()
recvOnChannel = evaluate $
  runDet $ do
    c <- newChan "c"
    par (branch (inp c) (\i -> recv i >>= \x -> x `seq` pure ()) <* branch (out c) (\o -> send o 'x'))

sendOnGrant :: IO ()
sendOnGrant = evaluate $
  runDet $ do
    c <- newChan "c"
    par (branch (out c) (\o -> send o 'x'))

grantEndOfOther :: IO ()
grantEndOfOther = evaluate $
  runDet $ do
    c <- newChan "c"
    par (branch (out c) (\o -> par (branch o (\o' -> par (branch o' (\o'' -> send o'' 'x'))))))

writingOfReadersEnd :: IO ()
writingOfReadersEnd = evaluate $
  runDet $ do
    c <- newChan "c"
    par (branch (out c) (\o -> par (branch o (\o' -> send o' 'x'))))

channelOutOfRun :: IO ()
channelOutOfRun = evaluate (runDet (newChan "c" >>= \c -> par (branch (out c) (\o -> send o 'x'))) `seq` ())

channelOfOtherRun :: IO ()
channelOfOtherRun = evaluate $
  runDet $ do
    c <- newChan "c"
    par (branch (out c) (\o -> send o 'x'))
    pure $! runDet (newChan "d" >>= \d -> par (branch (out d) (\o -> send o 'x')))

worldOutOfRun :: IO ()
worldOutOfRun = runDetIO (\w -> io w (pure ())) >>= \x -> x `seq` pure ()

worldInPureRun :: IO ()
worldInPureRun = runDetIO (\w -> io w (pure ()))

parentsWorldCaptured :: IO ()
parentsWorldCaptured = runDetIO (\w -> par (branch w (\w' -> io w' (pure ()))))

effectWithoutWorld :: IO ()
effectWithoutWorld = runDetIO (\w -> io w (pure ()))

ioInDet :: IO ()
ioInDet = runDetIO $ \w -> do
  pure ()
  io w (putStr "")

wrongElement :: IO ()
wrongElement = evaluate $
  runDet $ do
    c <- newChan "c"
    void (par (branch (out c) (\o -> send o 2) *> branch (inp c) (\i -> recv i >>= \x -> pure $! x + (1 :: Int))))

wrongResult :: IO ()
wrongResult = evaluate $
  runDet $ do
    (x, y) <- par ((,) <$> branch () (\() -> pure True) <*> branch () (\() -> pure 'x'))
    if x then pure () else y `seq` pure ()

closedWithEnd :: IO ()
closedWithEnd = evaluate $
  runDet $ do
    c <- newChan "c"
    void (par (branch (inp c) (\i -> recv i >>= \x -> leftmost [Closed (pure (Just x))]) <* branch (out c) (\o -> send o 'x')))

closedWithChannel :: IO ()
closedWithChannel = evaluate $ runDet (void (leftmost [Closed (newChan "c" >>= \c -> Just <$> par (branch (out c) (\o -> send o 'x')))]))

branchesCoerced :: IO ()
branchesCoerced = evaluate $
  runDet $ do
    c <- newChan "c"
    let one = branch (out c) (\o -> send o 'x')
    par (coerce one)

newtype Writer s = Writer (Writing s Char)
  deriving stock (Generic)

newtype Writer' t = Writer' (Out t Char)
  deriving stock (Generic)

instance s ~ s' => Grant s (Writer s') where
  type Given t (Writer s') = Writer' t

grantOfOtherShape :: IO ()
grantOfOtherShape = evaluate $
  runDet $ do
    c <- newChan "c"
    par (branch (Writer (out c)) (\(Writer' o) -> send o 'x'))

grantOfNumber :: IO ()
grantOfNumber = evaluate $ runDet (par (branch () (\_ -> pure ())))

grantOfFunction :: IO ()
grantOfFunction = evaluate $ runDet (newChan "c" >>= \c -> par (branch (out c) (\o -> send o 'x')))

grantOfChannel :: IO ()
grantOfChannel = evaluate $ runDet (newChan "c" >>= \c -> par (branch (inp c, out c) (\(_, o) -> send o 'x')))

grantOfNumbers :: IO ()
grantOfNumbers = evaluate $ runDet (par (branch (Just [(), ()], ()) (\_ -> pure ())))

newtype Bare s = Bare (Reading s Char)
  deriving stock (Generic)

newtype Clad t = Clad (In t Char)
  deriving stock (Generic)

instance s ~ s' => Grant s (Bare s') where
  type Given t (Bare s') = Clad t

grantWithoutGeneric :: IO ()
grantWithoutGeneric = evaluate $ runDet (newChan "c" >>= \c -> par (branch (Bare (inp c)) (\(Clad _) -> pure ())))

newtype Console s = Console (World s)
  deriving stock (Generic)

newtype ConsoleHere t = ConsoleHere (World t)
  deriving stock (Generic)

instance s ~ s' => Grant s (Console s') where
  type Given t (Console s') = ConsoleHere t

givenWithoutGeneric :: IO ()
givenWithoutGeneric = runDetIO (\w -> par (branch (Console w) (\(ConsoleHere w') -> io w' (pure ()))))

data Numbered s = Numbered () (Reading s Char)
  deriving stock (Generic)

data NumberedEnd t = NumberedEnd () (In t Char)
  deriving stock (Generic)

instance s ~ s' => Grant s (Numbered s') where
  type Given t (Numbered s') = NumberedEnd t

fieldThatIsNoGrant :: IO ()
fieldThatIsNoGrant = evaluate $ runDet (newChan "c" >>= \c -> par (branch (Numbered () (inp c)) (\(NumberedEnd () _) -> pure ())))

data Either' s = Reads (Reading s Char) | Writes (Writing s Char)
  deriving stock (Generic)

data EitherEnd t = ReadsFrom (In t Char) | WritesTo (Out t Char)
  deriving stock (Generic)

instance s ~ s' => Grant s (Either' s') where
  type Given t (Either' s') = EitherEnd t

grantOfOtherConstructors :: IO ()
grantOfOtherConstructors = evaluate $ runDet (newChan "c" >>= \c -> par (traverse (`branch` use) [Reads (inp c), Writes (out c)]) >>= \rs -> length rs `seq` pure ())
  where
    use :: EitherEnd t -> Det t ()
    use = \case
      ReadsFrom i -> recv i >>= \x -> x `seq` pure ()
      WritesTo o -> send o 'x'

data Two s = Two (Reading s Char) (Reading s Char)
  deriving stock (Generic)

data TwoEnds t = TwoEnds (In t Char) (In t Char)
  deriving stock (Generic)

instance s ~ s' => Grant s (Two s') where
  type Given t (Two s') = TwoEnds t

grantOfFewerFields :: IO ()
grantOfFewerFields = evaluate $ runDet (newChan "c" >>= \c -> par (branch (Two (inp c) (inp c)) (\(TwoEnds _ _) -> pure ())))
