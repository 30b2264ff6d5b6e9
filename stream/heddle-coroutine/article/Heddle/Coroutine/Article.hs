{-# LANGUAGE RankNTypes #-}
-- The contexts are those in print.
{-# OPTIONS_GHC -Wno-redundant-constraints #-}
{-# OPTIONS_HADDOCK hide #-}

-- |
-- Module      : Heddle.Coroutine.Article
-- Description : The article's listings, as printed
-- Stability   : for tests and benchmarks only
--
-- Simple and slow, to compare with. Corrected is only what would not compile or never ends;
-- each correction is marked.
--
-- Cost: that of the article's coroutines.
-- Owner: the caller.
module Heddle.Coroutine.Article
  ( Coroutine (..),
    suspend,
    mapSuspension,
    Trampoline,
    pause,
    run,
    mzipWith,
    interleave,
    Generator,
    yield,
    runGenerator,
    Iteratee,
    await,
    runIteratee,
    pipe1,
    pipe2,
    Transducer,
    awaitT,
    yieldT,
    lift121,
    liftStateless,
    liftStateful,
    (=>=),
    fromGenerator,
    fromIteratee,
    toGenerator,
    toIteratee,
    toTrampoline,
  )
where

import Control.Monad (ap, liftM, liftM2)
import Control.Monad.Trans.Class (MonadTrans (..))
import Data.Functor.Identity (Identity (..))
import Heddle.Coroutine (EitherFunctor (..), Naught)

{- HLINT ignore "Use fmap" -}
-- As printed.

-- Listing 9.
newtype Coroutine s m r = Coroutine {resume :: m (Either (s (Coroutine s m r)) r)}

-- Corrected: there are no instances of these in print.
instance (Functor s, Monad m) => Functor (Coroutine s m) where
  fmap = liftM

instance (Functor s, Monad m) => Applicative (Coroutine s m) where
  pure x = Coroutine (return (Right x))
  (<*>) = ap

instance (Functor s, Monad m) => Monad (Coroutine s m) where
  t >>= f = Coroutine (resume t >>= either (return . Left . fmap (>>= f)) (resume . f))

instance Functor s => MonadTrans (Coroutine s) where
  lift = Coroutine . liftM Right

suspend :: (Monad m, Functor s) => s (Coroutine s m x) -> Coroutine s m x
suspend s = Coroutine (return (Left s))

mapSuspension :: (Functor s, Monad m) => (forall a. s a -> s' a) -> Coroutine s m x -> Coroutine s' m x
mapSuspension f cort = Coroutine {resume = liftM map' (resume cort)}
  where
    map' (Right r) = Right r
    map' (Left s) = Left (f $ fmap (mapSuspension f) s)

-- Listing 10.
type Trampoline = Coroutine Identity

type Generator a = Coroutine ((,) a)

type Iteratee a = Coroutine ((->) a)

pause :: Monad m => Trampoline m ()
pause = suspend (Identity $ return ())

yield :: Monad m => x -> Generator x m ()
yield x = suspend (x, return ())

await :: Monad m => Iteratee x m x
await = suspend return

run :: Monad m => Trampoline m x -> m x
run t = resume t >>= either (run . runIdentity) return

runGenerator :: Monad m => Generator x m r -> m ([x], r)
runGenerator = run' id
  where
    run' f g =
      resume g
        >>= either
          (\(x, cont) -> run' (f . (x :)) cont)
          (\r -> return (f [], r))

runIteratee :: Monad m => [x] -> Iteratee x m r -> m r
runIteratee (x : rest) i = resume i >>= either (\cont -> runIteratee rest (cont x)) return
runIteratee [] i = resume i >>= either (\cont -> runIteratee [] (cont $ errorWithoutStackTrace "No more values to feed.")) return

-- After Listing 6.
mzipWith :: Monad m => (a -> b -> c) -> Trampoline m a -> Trampoline m b -> Trampoline m c
mzipWith f t1 t2 = Coroutine (liftM2 bind (resume t1) (resume t2))
  where
    bind (Left a) (Left b) = Left (mzipWith f <$> a <*> b)
    bind (Left a) (Right b) = Left (fmap (\a' -> mzipWith f a' (return b)) a)
    bind (Right a) (Left b) = Left (fmap (mzipWith f (return a)) b)
    bind (Right a) (Right b) = Right (f a b)

interleave :: Monad m => [Trampoline m r] -> Trampoline m [r]
interleave = foldr (mzipWith (:)) (return [])

-- Listing 11.
bindM2 :: Monad m => (a -> b -> m c) -> m a -> m b -> m c
bindM2 f ma mb = do a <- ma; b <- mb; f a b

pipe1 :: Monad m => Generator a m x -> Iteratee a m y -> m (x, y)
pipe1 g i = bindM2 proceed (resume g) (resume i)
  where
    proceed (Left (a, c)) (Left f) = pipe1 c (f a)
    proceed (Left (_, c)) (Right y) = pipe1 c (return y)
    proceed (Right _) (Left _) = errorWithoutStackTrace "The producer ended too soon."
    proceed (Right x) (Right y) = return (x, y)

pipe2 :: Monad m => Generator a m x -> Iteratee (Maybe a) m y -> m (x, y)
pipe2 g i = bindM2 proceed (resume g) (resume i)
  where
    proceed (Left (a, c)) (Left f) = pipe2 c (f $ Just a)
    proceed (Left (_, c)) (Right y) = pipe2 c (return y)
    proceed (Right x) (Left f) = pipe2 (return x) (f Nothing)
    proceed (Right x) (Right y) = return (x, y)

-- "Transducers in the middle".
type Transducer a b = Coroutine (EitherFunctor ((->) (Maybe a)) ((,) b))

awaitT :: Monad m => Transducer a b m (Maybe a)
awaitT = suspend (LeftF return)

yieldT :: Monad m => b -> Transducer a b m ()
yieldT x = suspend (RightF (x, return ()))

lift121 :: Monad m => (a -> b) -> Transducer a b m ()
lift121 f = awaitT >>= maybe (return ()) (\a -> yieldT (f a) >> lift121 f)

-- Corrected: the printed one never ends, even after the end of its input.
liftStateless :: Monad m => (a -> [b]) -> Transducer a b m ()
liftStateless f = awaitT >>= maybe (return ()) (\a -> mapM_ yieldT (f a) >> liftStateless f)

liftStateful :: Monad m => (state -> a -> (state, [b])) -> (state -> [b]) -> state -> Transducer a b m ()
liftStateful f eof s =
  awaitT
    >>= maybe
      (mapM_ yieldT (eof s))
      (\a -> let (s', bs) = f s a in mapM_ yieldT bs >> liftStateful f eof s')

-- Listing 12.
infixl 1 =>=

(=>=) :: forall a b c m x y. Monad m => Transducer a b m x -> Transducer b c m y -> Transducer a c m (x, y)
t1 =>= t2 = Coroutine (bindM2 proceed (resume t1) (resume t2))
  where
    proceed (Left (LeftF s)) c = return (Left $ LeftF $ fmap (=>= Coroutine (return c)) s)
    proceed c (Left (RightF s)) = return (Left $ RightF $ fmap (Coroutine (return c) =>=) s)
    proceed (Left (RightF (b, c1))) (Left (LeftF f)) = resume (c1 =>= f (Just b))
    proceed (Left (RightF (_, c1))) (Right y) = resume (c1 =>= (return y :: Transducer b c m y))
    proceed (Right x) (Left (LeftF f)) = resume ((return x :: Transducer a b m x) =>= f Nothing)
    proceed (Right x) (Right y) = return $ Right (x, y)

-- Listing 13. Corrected: in print, the first one awaits Naught and the second one yields it,
-- so that neither fits beside other transducers in a join or a conditional.
fromGenerator :: Monad m => Generator b m x -> Transducer a b m x
fromGenerator = mapSuspension RightF

fromIteratee :: Monad m => Iteratee (Maybe a) m x -> Transducer a b m x
fromIteratee = mapSuspension LeftF

-- Corrected: a transducer without input may still await; the printed one has no
-- answer, and crashes.
toGenerator :: Monad m => Transducer Naught a m x -> Generator a m x
toGenerator t =
  Coroutine $
    resume t
      >>= either
        (\case LeftF f -> resume (toGenerator (f Nothing)); RightF (a, c) -> return (Left (a, toGenerator c)))
        (return . Right)

toIteratee :: Monad m => Transducer a Naught m x -> Iteratee (Maybe a) m x
toIteratee = mapSuspension (\case LeftF a -> a; RightF (a, _) -> a `seq` error "no such value")

-- Corrected: printed as the undefined function, which is right only where it is not called.
toTrampoline :: Monad m => Transducer Naught Naught m x -> Trampoline m x
toTrampoline = mapSuspension (\case LeftF f -> Identity (f Nothing); RightF (a, _) -> a `seq` error "no such value")
